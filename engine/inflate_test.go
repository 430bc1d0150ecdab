package engine

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/files"
)

// Memory is reserved for what compressed offload binaries say they take, and for
// nested ones once they have been seen.
func TestInflationIsReserved(t *testing.T) {
	image := strings.Repeat("image ", 1000)
	inner := deflated(t, image)
	outer := deflated(t, string(inner))
	size := func(p []byte) int64 { return int64(binary.LittleEndian.Uint64(p[32:])) }
	for _, test := range []struct {
		name string
		data []byte
		want []int64
	}{
		{"nothing compressed", []byte("file"), []int64{0}},
		{"one", inner, []int64{0, size(inner)}},
		{"two", append(append([]byte{}, inner...), inner...), []int64{0, 2 * size(inner)}},
		{"nested", outer, []int64{0, size(outer), max(size(outer)+size(inner), 2*size(outer))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Session{Budget: files.NewBudget(1, 1<<30)}
			input := files.FromMemory("in", test.data)
			var got []int64
			err := s.inflating(context.Background(), func(ctx context.Context, reserved int64) error {
				got = append(got, reserved)
				f := &finder{session: s, ctx: ctx, input: input, left: maxFound, reserved: reserved, memory: inflation{left: reserved}}
				if err := f.file(input.All(), place{input: "in", path: "in"}); err != nil {
					return err
				}
				if err := f.memory.short(reserved); err != nil {
					return err
				}
				for _, e := range f.images {
					if _, err := f.unwrap(e); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if len(got) != len(test.want) {
				t.Fatalf("reserved %d, want %d", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("reserved %d, want %d", got, test.want)
				}
			}
		})
	}
}

// No more than a limit is reserved, whatever files say.
func TestInflationIsLimited(t *testing.T) {
	// A stream that could hold that much.
	p := deflated(t, strings.Repeat("image ", 1<<20))
	p = append(p, make([]byte, 1<<16)...)
	binary.LittleEndian.PutUint64(p[8:], uint64(len(p)))
	binary.LittleEndian.PutUint64(p[32:], maxInflated+1)
	if _, err := inspect(t, p); err == nil || !strings.Contains(err.Error(), "in: compressed offload binaries inflate to more than 1073741824 bytes in all") {
		t.Error(err)
	}
	binary.LittleEndian.PutUint64(p[32:], 1<<50)
	if _, err := inspect(t, p); err == nil || !strings.Contains(err.Error(), "is impossible") {
		t.Error(err)
	}
}
