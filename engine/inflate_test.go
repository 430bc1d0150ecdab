package engine

import (
	"encoding/binary"
	"strings"
	"testing"
)

// No content of a file leads to a reservation above the limit.
func TestInflationIsLimited(t *testing.T) {
	// A stream that could contain that much.
	p := deflated(t, strings.Repeat("image ", 1<<20))
	p = append(p, make([]byte, 1<<16)...)
	binary.LittleEndian.PutUint64(p[8:], uint64(len(p)))
	binary.LittleEndian.PutUint64(p[32:], 1<<30+1)
	if _, err := inspected(t, p); err == nil || !strings.Contains(err.Error(), "in: compressed offload binaries inflate to more than 1073741824 bytes in total") {
		t.Error(err)
	}
	binary.LittleEndian.PutUint64(p[32:], 1<<50)
	if _, err := inspected(t, p); err == nil || !strings.Contains(err.Error(), "is impossible") {
		t.Error(err)
	}
}
