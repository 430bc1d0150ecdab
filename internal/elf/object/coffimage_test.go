package object

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
)

// peSample is a PE32+ image of two sections with a debug directory and a checksum.
func peSample() []byte {
	le := binary.LittleEndian
	const lfanew, dirs, align = 0x48, 16, 512
	b := make([]byte, 3*align)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], lfanew)
	copy(b[0x40:], "dos stub")
	copy(b[lfanew:], peMagic)
	h := b[lfanew+4:]
	copy(h, "\x64\x86\x02\x00\x01\x02\x03\x04")
	le.PutUint16(h[16:], 112+dirs*peDirectorySize)
	le.PutUint16(h[18:], 0x22)
	o := h[coffHeaderSize:]
	le.PutUint16(o, 0x20b)
	le.PutUint32(o[peSectionAlign:], 0x1000)
	le.PutUint32(o[peFileAlign:], align)
	le.PutUint32(o[peSizeOfImage:], 0x3000)
	le.PutUint32(o[peSizeOfHeaders:], align)
	le.PutUint32(o[peCheckSum:], 0x1234)
	le.PutUint32(o[108:], dirs)
	le.PutUint32(o[112+peDebug*peDirectorySize:], 0x2010)
	le.PutUint32(o[116+peDebug*peDirectorySize:], peDebugRecordSize)
	s := o[112+dirs*peDirectorySize:]
	for i, sec := range []struct {
		name             string
		size, at, offset uint32
		chars            uint32
	}{
		{".text", 5, 0x1000, align, scnCode | scnMemExecute | scnMemRead},
		{".rdata", 0x100, 0x2000, 2 * align, scnInitializedData | scnMemRead},
	} {
		e := s[i*coffSectionSize:]
		copy(e, sec.name)
		for j, v := range []uint32{sec.size, sec.at, align, sec.offset} {
			le.PutUint32(e[8+4*j:], v)
		}
		le.PutUint32(e[36:], sec.chars)
	}
	copy(b[align:], "code!")
	debug := b[2*align+0x10:]
	le.PutUint32(debug[20:], 0x2040)
	le.PutUint32(debug[24:], 2*align+0x40)
	copy(b[2*align+0x40:], "RSDS")
	return b
}

// TestImageLLVM has digests of the output of llvm-objcopy 22.1.8 for peSample.
func TestImageLLVM(t *testing.T) {
	in := peSample()
	for _, test := range []struct {
		name   string
		e      Edits
		digest string
	}{
		{"copy", Edits{}, "519ba7402e32018e"},
		{"add", Edits{Add: []NewSection{BundleSection(bundleMagic+"id", content.Memory([]byte("payload")))}}, "899cd53be984d8ef"},
		{"remove", Edits{Remove: isName(".text")}, "a1ff82a280770edd"},
	} {
		got := rewrite(t, in, test.e)
		if d := fmt.Sprintf("%x", sha256.Sum256(got))[:16]; d != test.digest {
			t.Errorf("%s: got %s, want %s", test.name, d, test.digest)
		}
	}
	// Signatures, which LLVM 22 leaves dangling, go.
	signed := slices.Clone(in)
	binary.LittleEndian.PutUint64(signed[0x48+4+coffHeaderSize+112+peCertificates*peDirectorySize:], 8<<32|0x600)
	if !bytes.Equal(rewrite(t, signed, Edits{}), rewrite(t, in, Edits{})) {
		t.Error("the image still refers to its signatures")
	}
	f, err := Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	// The rest of the section's room in the file is padding.
	if got, err := f.Data(0); err != nil || string(got) != "code!" {
		t.Errorf("got %q, %v", got, err)
	}
	settled := settle(t, in)
	fat := rewrite(t, settled, Edits{Add: []NewSection{BundleSection("added", content.Memory([]byte("payload")))}})
	if got := rewrite(t, fat, Edits{Remove: isName("added")}); !bytes.Equal(got, settled) {
		t.Error("adding and removing a section changed the image")
	}
}

func TestImageHostile(t *testing.T) {
	good := peSample()
	le := binary.LittleEndian
	const optional = 0x48 + 4 + coffHeaderSize
	put32 := func(at int, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[at:], v) } }
	debug := optional + 112 + peDebug*peDirectorySize
	for _, test := range []struct {
		name   string
		change func([]byte)
		want   string
	}{
		{"optional header", put32(optional, 0x999), "expected one of PE32 or PE32+"},
		{"directories", put32(optional+108, 1<<30), "1073741824 data directories pass the end of the file"},
		{"debug directory", put32(debug, 0x9000), "the debug directory at address 0x9000 is in no section"},
		{"debug size", put32(debug+4, 0x7000), "28672 bytes of debug directory"},
		{"debug data", put32(2*512+0x10+20, 0x8000), "debug data at address 0x8000 is in no section"},
		{"alignment", put32(optional+peFileAlign, 1<<31), "ends past byte"},
		{"header over itself", func(b []byte) { copy(b[0x20:], b[0x48:0x1f0]); put32(0x3c, 0x20)(b) }, "overlaps it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad := slices.Clone(good)
			test.change(bad)
			if _, err := tryRewrite(bad, Edits{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
