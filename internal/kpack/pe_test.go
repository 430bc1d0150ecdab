package kpack

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// peFile returns a Windows library with one section for each pair of a name and
// its content.
func peFile(sections ...string) []byte {
	const dos, optional, fileHeader, sectionHeader = 64, 240, 24, 40
	le := binary.LittleEndian
	b := make([]byte, dos+fileHeader+optional)
	copy(b, "MZ")
	le.PutUint32(b[60:], dos)
	copy(b[dos:], "PE\x00\x00\x64\x86")
	le.PutUint16(b[dos+6:], uint16(len(sections)/2))
	le.PutUint16(b[dos+20:], optional)
	le.PutUint16(b[dos+22:], 0x2022)
	le.PutUint16(b[dos+24:], 0x20b)  // PE32+
	le.PutUint32(b[dos+24+36:], 1)   // alignment in the file
	le.PutUint32(b[dos+24+108:], 16) // directories
	at := len(b) + len(sections)/2*sectionHeader
	var body []byte
	for i := 0; i < len(sections); i += 2 {
		h := make([]byte, sectionHeader)
		copy(h, sections[i])
		size := uint32(len(sections[i+1]))
		le.PutUint32(h[8:], size)
		le.PutUint32(h[12:], uint32(0x1000*(i+1)))
		le.PutUint32(h[16:], size+8) // padded
		le.PutUint32(h[20:], uint32(at+len(body)))
		b = append(b, h...)
		body = append(append(body, sections[i+1]...), make([]byte, 8)...)
	}
	return append(b, body...)
}

func TestParsePE(t *testing.T) {
	le := binary.LittleEndian
	var wrapper []byte
	for _, v := range []uint32{embedding.MagicKpack, 1, 0x2000, 0, 7, 0} {
		wrapper = le.AppendUint32(wrapper, v)
	}
	want := &Marker{Name: "m.dll", SearchPaths: []string{"../kpack/m_@GFXARCH@.kpack"}}
	marker := string(want.bytes())

	whole := peFile(".text", "code", peWrappers, string(wrapper), peMarker, marker)
	h, err := ParseHost(content.Memory(whole))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, h.Marker); diff != "" {
		t.Errorf("marker (-want +got):\n%s", diff)
	}
	if got := h.Wrappers; len(got) != 1 || got[0].Record != (embedding.Record{Magic: embedding.MagicKpack, Index: 7, Target: 0x2000}) {
		t.Errorf("wrappers: got %+v, want one record of index 7 at 0x2000", got)
	}

	for _, test := range []struct {
		name string
		data []byte
		err  string
	}{
		{"no marker", peFile(peWrappers, string(wrapper)), ErrNoMarker.Error()},
		{"no wrappers", peFile(peMarker, marker), ErrNoMarker.Error()},
		{"truncated", whole[:len(whole)-len(marker)], "PE file: the section of the marker passes the end of the file"},
		{"other marker", peFile(peWrappers, string(wrapper), peMarker, "\x90"), "marker: expected a MessagePack map"},
		{"headers", whole[:100], "PE file: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ParseHost(content.Memory(test.data)); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got error %v, want %q", err, test.err)
			}
		})
	}
}

// TestSplittable tells libraries that can be split from others with device code.
func TestSplittable(t *testing.T) {
	// The bundle is in the first section, at 0x1000.
	wrapper := binary.LittleEndian.AppendUint32(nil, embedding.MagicHIP)
	wrapper = binary.LittleEndian.AppendUint32(wrapper, 1)
	wrapper = binary.LittleEndian.AppendUint64(wrapper, 0x1000)
	wrapper = append(wrapper, make([]byte, 8)...)
	for name, test := range map[string]struct {
		data []byte
		fat  bool
		why  string
	}{
		"Windows, HIP code": {peFile(".hip_fat", string(fixture.Bundle(t, "gfx90a")), ".hipFatB", string(wrapper)), false, "libraries for Windows cannot be split"},
		"Windows":           {peFile(".text", "code"), false, ""},
		"text":              {[]byte("text"), false, ""},
		"library":           {fixture.HIPLibrary(t, []string{"gfx90a"}), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if fat, why := Splittable(content.Memory(test.data)); fat != test.fat || why != test.why {
				t.Errorf("got %t, %q, want %t, %q", fat, why, test.fat, test.why)
			}
		})
	}
}
