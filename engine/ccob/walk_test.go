package ccob

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plainSize finds the end of a plain bundle made by plain.
func plainSize(b []byte) (int64, error) {
	le := binary.LittleEndian
	if len(b) < 32 {
		return 0, errors.New("cut off")
	}
	pos, end := uint64(32), uint64(32)
	for n := le.Uint64(b[24:]); n > 0; n-- {
		if pos+24 > uint64(len(b)) {
			return 0, errors.New("cut off")
		}
		o, s, l := le.Uint64(b[pos:]), le.Uint64(b[pos+8:]), le.Uint64(b[pos+16:])
		if o > uint64(len(b)) || s > uint64(len(b)) || l > uint64(len(b)) {
			return 0, errors.New("cut off")
		}
		pos += 24 + l
		end = max(end, pos, o+s)
	}
	return int64(end), nil
}

func TestWalk(t *testing.T) {
	// The contents of the bundles look like bundles.
	trap := append([]byte("CCOB\x03\x00\x01\x00"+plainMagic), make([]byte, 40)...)
	_, p := plain(1, []string{"host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx900"}, [][]byte{nil, trap})
	var v [4][]byte
	for i := 1; i <= 3; i++ {
		v[i] = container(i, Zstd, append(skippable(0), stored(trap)...), trap)
	}
	z := container(1, Zlib, deflate(t, p), p)
	pad := make([]byte, 4096)
	junk := bytes.Repeat([]byte("pad CCOB "), 20)
	join := func(b ...[]byte) []byte { return bytes.Join(b, nil) }
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, ""},
		{"zeros", pad, ""},
		{"junk", junk, ""},
		{"one", v[3], "3"},
		{"all", join(p, v[1], v[2], z, v[3], p, p, z, z, v[1], p), "p 1 2 1 3 p p 1 1 1 p"},
		{"padded", join(pad, v[3], pad[:5], p, pad[:1], z, pad[:77], v[1], pad[:77], v[2], pad, p, pad), "3 p 1 1 2 p"},
		{"junk between", join(junk, v[3], junk, p, junk, v[2], []byte("CCOB")), "3 p 2"},
		{"cut", join(p, v[3][:50]), "p byte 0x"},
		{"cut plain", join(v[3], p[:60]), "3 plain"},
		{"wrong size", join(p, v[3][:8], []byte{1, 0, 0, 0, 0, 0, 0, 0}, v[3][16:]), "p byte"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			pos := int64(0)
			for e, err := range Walk(tt.data, plainSize) {
				switch {
				case err != nil && strings.HasPrefix(err.Error(), "plain bundle at byte 0x"):
					got = append(got, "plain")
				case err != nil && strings.HasPrefix(err.Error(), "compressed bundle at byte 0x"):
					got = append(got, "byte")
				case err != nil:
					t.Error(err)
				case e.Header == nil:
					got = append(got, "p")
				default:
					got = append(got, string(rune('0'+e.Header.Version)))
					readAll(t, tt.data[e.Offset:e.End], map[bool][]byte{true: p, false: trap}[e.Header.Method == Zlib], Options{})
				}
				if err == nil && (e.Offset < pos || e.End <= e.Offset || e.End > int64(len(tt.data))) {
					t.Errorf("extent %+v", e)
				}
				pos = e.End
			}
			want := strings.ReplaceAll(tt.want, "byte 0x", "byte")
			if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
				t.Error(d)
			}
		})
	}
}

// stored is a frame with b uncompressed.
func stored(b []byte) []byte {
	f := []byte{0x28, 0xb5, 0x2f, 0xfd, 1 << 5, byte(len(b))}
	h := uint32(len(b))<<3 | 1
	return append(append(f, byte(h), byte(h>>8), byte(h>>16)), b...)
}

func TestWalkStops(t *testing.T) {
	_, p := sample(1, 10)
	n := 0
	for range Walk(bytes.Repeat(p, 3), plainSize) {
		n++
		break
	}
	if n != 1 {
		t.Error(n)
	}
}
