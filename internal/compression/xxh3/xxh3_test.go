package xxh3

import (
	"strconv"
	"strings"
	"testing"
)

// The hashes are those of github.com/zeebo/xxh3; each length uses another branch.
func TestHash(t *testing.T) {
	for n, want := range map[int]uint64{
		0: 0x2d06800538d394c2, 1: 0xf445b65c72ed012b, 3: 0x6b0700c96c664a92, 4: 0xc59ec83b7107d533, 8: 0x8d652dc6ed49c540,
		9: 0x8c6b334526049a01, 16: 0x8221a687f4f04070, 17: 0x45e44e59379c0f25, 100: 0x7ddecb74d1617cff, 128: 0xb715c1641cf661f7,
		129: 0xd3845ecaeb476761, 240: 0x834bcb8de6965309, 241: 0xb3eec912a5e29c93, 1024: 0x4aa33d6ed677bb02, 1025: 0x1722f8cb8098ce83,
		3000: 0xf672a3a27e761ffe,
	} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			if got := Hash(strings.Repeat("offload", n/7+1)[:n]); got != want {
				t.Errorf("got %#x, want %#x", got, want)
			}
		})
	}
}
