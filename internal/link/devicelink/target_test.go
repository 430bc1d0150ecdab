package devicelink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

func TestTarget(t *testing.T) {
	elf := make([]byte, 64)
	copy(elf, "\x7fELF\x02\x01\x01")
	elf[16] = 3
	set := func(machine, flags int) []byte {
		b := slices.Clone(elf)
		b[18], b[19], b[48], b[49] = byte(machine), byte(machine>>8), byte(flags), byte(flags>>8)
		return b
	}
	for _, test := range []struct {
		data         []byte
		triple, arch string
		fails        bool
	}{
		{set(224, 0x53f), amd, "gfx90a", false},
		{set(224, 0x036), amd, "gfx1030", false},
		{set(224, 0), "", "", true},
		{set(62, 0), "x86_64--", "", false},
		{set(1, 0), "", "", true},
		{[]byte("text"), "", "", true},
		{nil, "", "", true},
		{elf[:63], "", "", true},
		{edited(elf, 4, 3), "", "", true},
		{edited(elf, 5, 3), "", "", true},
	} {
		triple, arch, err := Target(test.data)
		if triple != test.triple || arch != test.arch || (err != nil) != test.fails {
			t.Errorf("%q, %q, %v", triple, arch, err)
		}
	}
}

// edited returns a copy of data with another byte at off.
func edited(data []byte, off int, value byte) []byte {
	b := slices.Clone(data)
	b[off] = value
	return b
}

// TestContainer reads the containers of SPIR-V for Intel.
func TestContainer(t *testing.T) {
	for triple, want := range map[string]bool{"spirv64-intel": true, "spirv64-intel-unknown": true, "spirv64-unknown-unknown": false, "x86_64-intel-linux": false} {
		if NeedsContainer(triple) != want {
			t.Errorf("%s: %v", triple, !want)
		}
	}
	spirv := content.Memory([]byte("\x03\x02\x23\x07 and code"))
	var elf, pack content.Buffer
	if err := errors.Join(WriteContainer(&elf, 22, "spirv64-intel", spirv), WriteContainer(&pack, 23, "spirv64-intel", spirv)); err != nil {
		t.Fatal(err)
	}
	f, err := object.Parse(elf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, s := range f.Sections {
		data, err := f.Data(i)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %q", s.Name, data))
	}
	owner := "\x13\x00\x00\x00%c\x00\x00\x00%c\x00\x00\x00INTELONEOMPOFFLOAD\x00\x00%s"
	notes := fmt.Sprintf(owner, 3, 1, "1.0\x00") + fmt.Sprintf(owner, 5, 3, "0\x001\x00\x00\x00\x00\x00") + fmt.Sprintf(owner, 1, 2, "1\x00\x00\x00")
	want := []string{` "" `, fmt.Sprintf(".note.inteloneompoffload %q", notes), fmt.Sprintf("__openmp_offload_spirv_0 %q", spirv.Mapped(guard.Inside))}
	if len(got) != 4 || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("sections are\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var images []offloadbinary.Image
	for p, err := range offloadbinary.Parse(content.Memory(pack.Bytes()), offloadbinary.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, p.Images...)
	}
	if len(images) != 1 || images[0].Kind != offloadbinary.SPIRV || images[0].Get("version") != "1.0" || string(images[0].Content.Mapped(guard.Inside)) != string(spirv.Mapped(guard.Inside)) {
		t.Errorf("%+v", images)
	}
}
