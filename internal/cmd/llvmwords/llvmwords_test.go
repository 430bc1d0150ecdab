package llvmwords

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/ar"
)

// head returns a member header.
func head(name string, size int) string {
	return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o644, size)
}

// member returns a whole member.
func member(name, data string) string {
	return head(name, len(data)) + data + strings.Repeat("\n", len(data)%2)
}

const magic = "!<arch>\n"

// fault returns the fault of an archive.
func fault(data []byte) error {
	a, err := ar.Parse(data)
	if err != nil {
		return err
	}
	for _, err := range a.Members() {
		if err != nil {
			return err
		}
	}
	return nil
}

// The words are those that llvm-ar 22 printed for these bytes.
func TestArchive(t *testing.T) {
	const malformed = "truncated or malformed archive ("
	a := member("a.o/", "hi")
	for _, c := range []struct{ name, data, ours, llvm string }{
		{"nothing", "", `archive member at byte 0x0: found "", expected "!<arch>\n" or "!<thin>\n"`, "file too small to be an archive"},
		{"other file", "\x7fELF\x02\x01\x01\x00\x00", `found "\x7fELF\x02\x01\x01\x00"`, "file too small to be an archive"},
		{"AIX", "<bigaf>\n" + strings.Repeat("0", 128), "AIX big archive, which is not supported", "AIX big archives are not supported"},
		{
			"header cut", magic + a + a[:20],
			"archive member at byte 0x46: 20 bytes left, a member header needs 60",
			malformed + "remaining size of archive too small for next archive member header for a.o)",
		},
		{
			"name cut", magic + a + a[:10],
			"10 bytes left",
			malformed + "remaining size of archive too small for next archive member header at offset 70)",
		},
		{
			"terminator", magic + strings.Replace(a, "`\n", "\"\x01", 1),
			`archive member at byte 0x8: ends with "\"\x01", expected`,
			malformed + "terminator characters in archive member \"\\\"\\001\" not the correct \"`\\n\" values for the archive member header for a.o)",
		},
		{
			"size", magic + head("a.o/", 0)[:48] + "12x       `\n",
			`size "12x" is not a number`,
			malformed + "characters in size field in archive member header are not all decimal numbers: '12x' for the archive member header at offset 8)",
		},
		{
			"size past the end", magic + head("a.o/", 9999999999) + "hi",
			"archive member at byte 0x8: size 9999999999 passes the end of the archive (70 bytes)",
			malformed + "offset to next archive member past the end of the archive after member a.o)",
		},
		{
			"name offset", magic + member("//", "x/\n\n") + member("/1x", "hi"),
			`offset "1x" of the name is not a number`,
			malformed + "long name offset characters after the '/' are not all decimal numbers: '1x' for archive member header at offset 72)",
		},
		{
			"name past the end", magic + member("//", "x/\n\n") + member("/4", "hi"),
			"name at 4 passes the end of the table of names (4 bytes)",
			malformed + "long name offset 4 past the end of the string table for archive member header at offset 72)",
		},
		{
			"name without end", magic + member("//", "abcdef") + member("/2", "hi"),
			`name at 2 of the table of names (byte 0x46) does not end with "/\n"`,
			malformed + "string table at long name offset 2 not terminated)",
		},
		{
			"BSD name length", magic + member("#1/x", "hi"),
			`length "x" of the name is not a number`,
			malformed + "long name length characters after the #1/ are not all decimal numbers: 'x' for archive member header at offset 8)",
		},
		{
			"BSD name too long", magic + member("#1/4", "hi"),
			"name of 4 bytes in a member of 2",
			malformed + "long name length: 4 extends past the end of the member or archive for archive member header at offset 8)",
		},
		{
			"BSD name with a space", magic + member("#1/2", "a\x00hi") + member(" x", "hi"),
			"name starts with a space",
			malformed + "name contains a leading space for archive member header at offset 72)",
		},
		{
			"special name", magic + member("/0", "hi"),
			`special name "/0" before the table of long names`,
			"Invalid data was encountered while parsing the file",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := fault([]byte(c.data))
			var f *ar.FormatError
			if !errors.As(err, &f) {
				t.Fatalf("got %v, want a FormatError", err)
			}
			if got := Archive(f); got != c.llvm {
				t.Errorf("got  %s\nwant %s", got, c.llvm)
			}
		})
	}
}

// Every fault of an archive has its own words.
func TestEveryArchiveFault(t *testing.T) {
	for fault := ar.NoArchive; fault <= ar.NameUnterminated; fault++ {
		got := Archive(&ar.FormatError{Fault: fault, Reason: "ours"})
		if got == "" || strings.Contains(got, "ours") {
			t.Errorf("fault %d: %q", fault, got)
		}
	}
}

// Every fault that LLVM notices in a compressed bundle has words.
func TestCompressed(t *testing.T) {
	if got := Compressed(&ccob.Error{Fault: ccob.Other}); got != "" {
		t.Errorf("other: %q", got)
	}
	seen := map[string]bool{"": true}
	for fault := ccob.HeaderCut; fault <= ccob.ZlibTooLong; fault++ {
		got := Compressed(&ccob.Error{Fault: fault})
		if seen[got] {
			t.Errorf("fault %d: %q", fault, got)
		}
		seen[got] = true
	}
	_, err := ccob.Parse([]byte("CCOB\x03\x00\x02\x00"))
	var e *ccob.Error
	if !errors.As(err, &e) || Compressed(e) != "Compressed bundle header size too small" {
		t.Errorf("header: %v", err)
	}
}

func TestOffloadBinary(t *testing.T) {
	for data, want := range map[string]string{
		offloadbinary.Magic: invalidData,
		"\x7fELF":           invalidData,
		offloadbinary.Magic + "\x01\x00\x00\x00\xff":                                                          invalidData,
		offloadbinary.Magic + "\x01\x00\x00\x00\xff\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 16): endOfFile,
	} {
		for _, err := range offloadbinary.Parse(content.Memory([]byte(data)), offloadbinary.Options{}) {
			var e *offloadbinary.Error
			if !errors.As(err, &e) || Fault(e) != want {
				t.Errorf("%q: %v", data, err)
			}
		}
	}
}

// The words are those that clang-offload-bundler 22 printed for these targets, except for targets
// in two spellings, which it accepts.
func TestTarget(t *testing.T) {
	const gfx906, host, x86 = "hip-amdgcn-amd-amdhsa--gfx906", "host-x86_64-unknown-linux-gnu-", "openmp-x86_64-pc-linux-gnu"
	for _, test := range []struct {
		name    string
		targets []string
		want    string
	}{
		{"format", []string{"foo-"}, "Targets need to follow the format '<offload kind>-<target triple>', where '<target triple>' follows the format '<kind>-<arch>-<vendor>-<os>-<env>[-<target id>[:target features]]'."},
		{"kind", []string{"cuda-nvptx64-nvidia-cuda--sm_70"}, "invalid target 'cuda-nvptx64-nvidia-cuda--sm_70', unknown offloading kind 'cuda'"},
		{"kind and triple", []string{"foo-zzz-amd-amdhsa-"}, "invalid target 'foo-zzz-amd-amdhsa-', unknown offloading kind 'foo', unknown target triple 'zzz-amd-amdhsa-'"},
		{"duplicate", []string{gfx906, gfx906}, "Duplicate targets are not allowed"},
		{"two spellings", []string{host, x86, x86 + "-"}, "Duplicate targets are not allowed: '" + x86 + "' and '" + x86 + "-' are both '" + x86 + "-'"},
		{"no host", []string{x86 + "-"}, "expecting exactly one host target but got 0"},
		{"conflict", []string{gfx906, gfx906 + ":xnack+"}, "Cannot bundle inputs with conflicting targets: '" + gfx906 + "' and '" + gfx906 + ":xnack+'"},
		{"no fault", []string{gfx906}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := target.CheckTargets(test.targets, target.ParseLLVM, target.Bundling)
			if got := Target(err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
