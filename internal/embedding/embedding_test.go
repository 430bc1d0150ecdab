package embedding

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// Records are found between padding and records of other kinds, up to the end.
func TestRecords(t *testing.T) {
	le := binary.LittleEndian
	record := func(magic, version uint32, target uint64, index uint32) []byte {
		b := le.AppendUint32(le.AppendUint32(nil, magic), version)
		return le.AppendUint32(le.AppendUint32(le.AppendUint64(b, target), index), 0)
	}
	data := []byte{1, 2, 3, 4}
	data = append(data, record(MagicHIP, 1, 0x10, 0)...)
	data = append(data, make([]byte, 8)...)
	data = append(data, record(MagicHIP, 2, 0x20, 0)...)
	data = append(data, record(MagicKpack, 1, 0x30, 7)...)
	data = append(data, record(MagicHIP, 1, 0x40, 0)[:20]...)
	var got []string
	for at, r := range Records(data, 4) {
		got = append(got, fmt.Sprintf("%d %x %d", at, r.Target, r.Index))
	}
	if want := "[4 10 0 60 30 7]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, expected %s", got, want)
	}
	if string(le.AppendUint32(nil, MagicKpack)) != "HIPK" {
		t.Error("MagicKpack is not HIPK")
	}
	for range Records(data[:RecordSize-1], 0) {
		t.Error("a record in 23 bytes")
	}
}
