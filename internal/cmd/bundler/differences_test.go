package bundler

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each test in this file is for a row of docs/differences.md, where LLVM's tool gives a wrong
// answer or none.

func TestUnknownProcessorsKeepTheirNames(t *testing.T) {
	b := newBench(t)
	b.bundle("bc", "x", hip+"gfx940", "forty", hip+"gfx941", "forty-one", hip+"gfx1300", "thirteen")
	got := lines(b.must("-type=bc", "-list", "-input=x"))
	slices.Sort(got)
	if want := []string{hip + "gfx1300", hip + "gfx940", hip + "gfx941"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	b.must(unbundleArgs("bc", "x", hip+"gfx941", hip+"gfx940")...)
	b.want("out0", "forty-one", "out1", "forty")
}

func TestUnknownProcessorsMatchOnlyThemselves(t *testing.T) {
	b := newBench(t)
	b.bundle("bc", "x", hip+"gfx940", "forty")
	b.fails([]string{"Can't find bundles for " + hip + "gfx941"}, unbundleArgs("bc", "x", hip+"gfx941")...)
	b.fails([]string{"Can't find bundles for " + hip}, unbundleArgs("bc", "x", hip)...)
}

func TestOneTargetInTwoSpellings(t *testing.T) {
	b := newBench(t)
	b.fails([]string{"Duplicate targets are not allowed"}, b.bundleArgs("bc", "x", hostTarget, "h", "openmp-x86_64-pc-linux-gnu", "a", "openmp-x86_64-pc-linux-gnu-", "b")...)
	b.fails([]string{"Duplicate targets are not allowed"}, b.bundleArgs("bc", "x", hip+"gfx906:sramecc+:xnack-", "a", hip+"gfx906:xnack-:sramecc+", "b")...)
}

func TestExactMatchWins(t *testing.T) {
	b := newBench(t)
	for _, gpu := range []string{"gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"} {
		b.bundle("bc", "x", hip+gpu, "hip", "hipv4-"+amd+gpu, "hipv4")
		b.must(unbundleArgs("bc", "x", "hipv4-"+amd+gpu)...)
		b.want("out0", "hipv4")
		b.must(unbundleArgs("bc", "x", hip+gpu)...)
		b.want("out0", "hip")
	}
}

func TestEntryServesTwoRequests(t *testing.T) {
	b := newBench(t)
	for _, fileType := range []string{"bc", "i"} {
		b.bundle(fileType, "x", hip+"gfx906", "any")
		b.must(unbundleArgs(fileType, "x", hip+"gfx906:xnack+", hip+"gfx906:xnack-")...)
		b.want("out0", "any", "out1", "any")
	}
}

func TestConflictsAreSeenFromBothSides(t *testing.T) {
	b := newBench(t)
	for _, pair := range [][2]string{{"gfx906:sramecc+:xnack+", "gfx906:xnack+"}, {"gfx906:xnack+", "gfx906:sramecc+:xnack+"}} {
		b.fails([]string{"Cannot bundle inputs with conflicting targets", "gfx906:sramecc+:xnack+", "gfx906:xnack+"},
			b.bundleArgs("bc", "x", hip+pair[0], "a", hip+pair[1], "b")...)
	}
}

func TestMalformedTargetIDs(t *testing.T) {
	b := newBench(t)
	for id, reason := range map[string]string{
		"gfx906:foo": "'foo' does not end in '+' or '-'", "gfx906::xnack+": "'' does not end in '+' or '-'", "gfx906:xnack": "'xnack' does not end in '+' or '-'",
		"gfx906:xnack+:xnack-": "'xnack' occurs twice", ":xnack+": "there is no processor before the first ':'",
	} {
		b.fails([]string{"invalid target '" + hip + id + "': target ID '" + id + "': " + reason}, b.bundleArgs("bc", "x", hip+id, "a")...)
		b.fails([]string{hip + id}, unbundleArgs("bc", "x.in0", hip+id)...)
	}
}

func TestZeroAlignment(t *testing.T) {
	b := newBench(t)
	b.bundle("bc", "one", hip+"gfx906", "content")
	b.must(append(b.bundleArgs("bc", "zero", hip+"gfx906", "content"), "-bundle-align=0")...)
	b.want("zero", b.read("one"))
}

func TestLargeAlignment(t *testing.T) {
	b := newBench(t)
	b.must(append(b.bundleArgs("bc", "x", hip+"gfx906", "one", hip+"gfx908", "two"), "-bundle-align=1000000000")...)
	b.must(unbundleArgs("bc", "x", hip+"gfx908", hip+"gfx906")...)
	b.want("out0", "two", "out1", "one")
}

// Every prefix of a bundle is reported as truncated, or is not a bundle.
func TestBundleCutShort(t *testing.T) {
	b := newBench(t)
	whole := plainBundle(t, hostTarget, "", hip+"gfx906", "some content", hip+"gfx942", "more content")
	for n := 25; n < len(whole); n++ {
		b.write("x", whole[:n])
		b.fails([]string{"x: ", "at byte 0x", "the end of the file", "was it cut short?"}, "-type=bc", "-list", "-input=x")
		b.fails(nil, unbundleArgs("bc", "x", hip+"gfx906")...)
		b.fails(nil, append(unbundleArgs("bc", "x", hip+"gfx906"), "-allow-missing-bundles")...)
		b.fails(nil, append(unbundleArgs("o", "x", hip+"gfx906"), "-allow-missing-bundles")...)
		b.write("x.a", archive(t, "m.o", whole[:n]))
		b.fails([]string{"x.a(m.o): "}, unbundleArgs("a", "x.a", hip+"gfx906")...)
	}
}

// header returns a bundle of one entry with these numbers.
func header(count, offset, size, idLen uint64) string {
	data := []byte("__CLANG_OFFLOAD_BUNDLE__")
	for _, n := range []uint64{count, offset, size, idLen} {
		data = binary.LittleEndian.AppendUint64(data, n)
	}
	return string(data) + hip + "gfx906" + strings.Repeat("content ", 20)
}

func TestNumbersThatCannotBe(t *testing.T) {
	b := newBench(t)
	id := uint64(len(hip + "gfx906"))
	for _, data := range []string{
		header(1<<63, 100, 8, id), header(^uint64(0), 100, 8, id), header(3, 100, 8, id), header(1<<32, 100, 8, id),
		header(1, 1<<63, 8, id), header(1, ^uint64(0), 8, id), header(1, 100, ^uint64(0), id), header(1, ^uint64(0)-3, 8, id),
		header(1, 100, 1<<63, id), header(1, 100, 10000, id), header(1, 10000, 0, id),
		header(1, 100, 8, ^uint64(0)), header(1, 100, 8, 1<<63), header(1, 100, 8, ^uint64(0)-50), header(1, 100, 8, 10000),
		header(1, 0, 8, id), header(1, 10, 8, id), header(1, 60, 8, id),
	} {
		b.write("x", data)
		b.fails([]string{"x: ", "at byte 0x"}, "-type=bc", "-list", "-input=x")
		b.fails([]string{"x: ", "at byte 0x"}, unbundleArgs("bc", "x", hip+"gfx906")...)
		b.fails([]string{"x: ", "at byte 0x"}, append(unbundleArgs("o", "x", hostTarget), "-allow-missing-bundles")...)
	}
}

func TestTextWithoutEnd(t *testing.T) {
	b := newBench(t)
	b.bundle("i", "x", hostTarget, "one\n", hip+"gfx906", "two\n")
	whole := b.read("x")
	for _, marker := range []string{"\n// __CLANG_OFFLOAD_BUNDLE____END__ hip"} {
		b.write("x", whole[:strings.Index(whole, marker)])
		b.fails([]string{"x: entry 2 at byte 0x", "no END line"}, "-type=i", "-list", "-input=x")
		b.fails([]string{"x: entry 2 at byte 0x", "no END line"}, unbundleArgs("i", "x", hostTarget)...)
	}
	for n := range len(whole) {
		b.write("x", whole[:n])
		b.call("-type=i", "-list", "-input=x")
		b.call(append(unbundleArgs("i", "x", hip+"gfx906", hostTarget), "-allow-missing-bundles")...)
	}
}

func TestTextWithCarriageReturns(t *testing.T) {
	b := newBench(t)
	b.bundle("i", "x", hostTarget, "one\n", hip+"gfx906", "two\n", hip+"gfx908", "no line end", hip+"gfx90a", "")
	b.write("x", strings.ReplaceAll(b.read("x"), "\n", "\r\n"))
	b.must(unbundleArgs("i", "x", hostTarget, hip+"gfx906", hip+"gfx908", hip+"gfx90a")...)
	b.want("out0", "one\r\n", "out1", "two\r\n", "out2", "no line end", "out3", "")
}

func TestTextThatCannotBeReadBack(t *testing.T) {
	b := newBench(t)
	b.bundle("i", "inner", hostTarget, "one", hip+"gfx906", "two")
	b.fails([]string{"END line"}, b.bundleArgs("i", "outer", hostTarget, b.read("inner"))...)
}

func TestStartLineInSkippedText(t *testing.T) {
	b := newBench(t)
	b.bundle("i", "x", hostTarget, "one\n// __CLANG_OFFLOAD_BUNDLE____START__ "+hip+"gfx906\nnot the code", hip+"gfx906", "the code")
	b.must(unbundleArgs("i", "x", hip+"gfx906")...)
	b.want("out0", "the code")
}

func TestDeviceImageOfOneZeroByte(t *testing.T) {
	b := newBench(t)
	host := hostObject(t)
	b.bundle("o", "x", hostTarget, host, "openmp-"+amd+"gfx906", "\x00")
	b.must(unbundleArgs("o", "x", "openmp-"+amd+"gfx906", hostTarget)...)
	b.want("out0", "\x00", "out1", host)
}

func TestMissingHostIsNotTheBundle(t *testing.T) {
	b := newBench(t)
	for _, fileType := range []string{"bc", "i"} {
		b.bundle(fileType, "x", hip+"gfx906", "content")
		b.must(append(unbundleArgs(fileType, "x", hostTarget, hip+"gfx942"), "-allow-missing-bundles")...)
		b.want("out0", "", "out1", "")
	}
	b.bundle("o", "x", hostTarget, hostObject(t), "openmp-"+amd+"gfx906", "content")
	b.must(append(unbundleArgs("o", "x", "host-aarch64-unknown-linux-gnu"), "-allow-missing-bundles")...)
	b.want("out0", "")
}

func TestHostFromStandardInputAndCompressed(t *testing.T) {
	b := newBench(t)
	host := hostObject(t)
	b.bundle("o", "x", hostTarget, host, "openmp-"+amd+"gfx906", "content")
	b.stdin = b.read("x")
	b.must(unbundleArgs("o", "-", hostTarget)...)
	b.want("out0", host)
	b.write("y", compressedObject(t, b.read("x")))
	b.must(unbundleArgs("o", "y", hostTarget, "openmp-"+amd+"gfx906")...)
	b.want("out0", host, "out1", "content")
}

func TestHIPObjectsMakeABinaryBundle(t *testing.T) {
	b := newBench(t)
	for _, first := range []string{hostObject(t), strings.Repeat("\x00", 40)} {
		b.bundle("o", "x", hip+"gfx906", first, hip+"gfx942", "two")
		b.must(unbundleArgs("o", "x", hip+"gfx942", hip+"gfx906")...)
		b.want("out0", "two", "out1", first)
	}
}

func TestOutputOverInput(t *testing.T) {
	b := newBench(t)
	host := hostObject(t)
	b.write("host.o", host, "dev", "device")
	b.fails([]string{"'host.o': is the same file as the input 'host.o'"}, "-type=o", "-targets="+hostTarget+",openmp-"+amd+"gfx906", "-input=host.o", "-input=dev", "-output=host.o")
	b.want("host.o", host)
	b.bundle("bc", "x", hip+"gfx906", "content")
	before := b.read("x")
	if err := os.Link(filepath.Join(b.dir, "x"), filepath.Join(b.dir, "y")); err != nil {
		t.Fatal(err)
	}
	b.fails([]string{"'y': is the same file as the input 'x'"}, "-type=bc", "-unbundle", "-targets="+hip+"gfx906", "-input=x", "-output=y")
	b.want("x", before)
}

func TestTwoOutputsInOneFile(t *testing.T) {
	b := newBench(t)
	b.bundle("bc", "x", hip+"gfx906", "one", hip+"gfx942", "two")
	b.fails([]string{"each output must be a separate file"}, "-type=bc", "-unbundle", "-targets="+hip+"gfx906,"+hip+"gfx942", "-input=x", "-output=y", "-output=./y")
}

func TestFailuresLeaveNothing(t *testing.T) {
	b := newBench(t)
	b.bundle("bc", "x", hip+"gfx906", "one")
	b.write("out0", "from before")
	b.fails([]string{"Can't find bundles for " + hip + "gfx942"}, unbundleArgs("bc", "x", hip+"gfx906", hip+"gfx942")...)
	b.want("out0", "from before")
	b.write("x.a", archive(t, "m.bc", b.read("x")))
	b.fails([]string{"no compatible code object found for the target '" + hip + "gfx942'"}, unbundleArgs("a", "x.a", hip+"gfx906", hip+"gfx942")...)
	b.want("out0", "from before")
	b.fails([]string{"'nosuch/x': No such file or directory"}, "-type=bc", "-targets="+hip+"gfx906", "-input=x", "-output=nosuch/x")
}

func TestArchiveOutputsThatCannotBeWritten(t *testing.T) {
	b := newBench(t)
	b.bundle("bc", "x", hip+"gfx906", "one")
	b.write("x.a", archive(t, "m.bc", b.read("x")), "file", "from before")
	if err := os.Mkdir(filepath.Join(b.dir, "dir"), 0o777); err != nil {
		t.Fatal(err)
	}
	for output, reason := range map[string]string{"nosuch/x": "No such file or directory", "dir": "Is a directory", "file/x": "Not a directory", "": "No such file or directory"} {
		for _, arch := range []string{"gfx906", "gfx942"} {
			b.fails([]string{"'" + output + "': " + reason}, "-unbundle", "-type=a", "-allow-missing-bundles", "-targets="+hip+arch, "-input=x.a", "-output="+output)
		}
	}
	b.want("file", "from before")
}

func TestImagesThatOnlyBeginLikeObjects(t *testing.T) {
	b := newBench(t)
	for _, image := range []string{"\x00\x00 zeros", "\x7fELF but no more", "\x7fELF\x02\x01\x01" + strings.Repeat("\xff", 100), "BC\xc0\xde no bitcode", strings.Repeat("\x00", 64)} {
		b.bundle("bc", "x", hip+"gfx906", image)
		b.write("x.a", archive(t, "m.bc", b.read("x")))
		b.must(unbundleArgs("a", "x.a", hip+"gfx906")...)
		if got := b.read("out0"); !strings.Contains(got, image) {
			t.Errorf("the archive does not have the image %q", image)
		}
	}
}

func TestNoObjcopyNeeded(t *testing.T) {
	t.Setenv("PATH", "/nonexistent")
	b := newBench(t)
	b.bundle("o", "x", hostTarget, hostObject(t), "openmp-"+amd+"gfx906", "content")
	b.must("-type=o", "-list", "-input=x")
	b.must(unbundleArgs("o", "x", hostTarget)...)
}

func TestSeveralBundles(t *testing.T) {
	b := newBench(t)
	magic := "__CLANG_OFFLOAD_BUNDLE__"
	first := plainBundle(t, hostTarget, "", hip+"gfx906", "one "+magic+" CCOB")
	b.must(append(b.bundleArgs("bc", "z", hip+"gfx942", "two CCOB\x03\x00\x01\x00 "+magic), "-compress")...)
	third := plainBundle(t, hip+"gfx1100", "three", hip+"gfx906", "another")
	pad := strings.Repeat("\x00", 100)
	for _, data := range []string{
		first + b.read("z") + third,
		first + pad + b.read("z") + pad + third + pad,
		pad + first + b.read("z") + pad + third,
		b.read("z") + first + third,
		b.read("z") + pad + b.read("z") + first + pad + third,
	} {
		b.write("x", data)
		got := lines(b.must("-type=bc", "-list", "-input=x"))
		for _, id := range []string{hip + "gfx906", hip + "gfx942", hip + "gfx1100"} {
			if !slices.Contains(got, id) {
				t.Errorf("%s is not listed: %q", id, got)
			}
		}
		b.must(unbundleArgs("bc", "x", hip+"gfx1100", hip+"gfx942", hip+"gfx906")...)
		b.want("out0", "three", "out1", "two CCOB\x03\x00\x01\x00 "+magic, "out2", "one "+magic+" CCOB")
	}
}

func TestOldLayout(t *testing.T) {
	b := newBench(t)
	b.write("x", plainBundle(t, "host-x86_64-unknown-linux", "", "hip-amdgcn-amd-amdhsa-gfx906", "six", "hip-amdgcn-amd-amdhsa-gfx908:xnack+", "eight"))
	b.must(unbundleArgs("o", "x", hip+"gfx906", hip+"gfx908:xnack+", "host-x86_64-unknown-linux-gnu")[:7]...)
	b.want("out0", "six", "out1", "eight")
	if got := lines(b.must("-type=o", "-list", "-input=x")); len(got) != 3 {
		t.Errorf("listed %q", got)
	}
}

func TestDamagedData(t *testing.T) {
	b := newBench(t)
	content := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40)
	for _, version := range []string{"2", "3"} {
		b.env = map[string]string{"COMPRESSED_BUNDLE_FORMAT_VERSION": version}
		b.must(append(b.bundleArgs("bc", "x", hip+"gfx906", content), "-compress")...)
		whole := b.read("x")
		hash := 16
		if version == "3" {
			hash = 24
		}
		for at := range len(whole) {
			if at >= 8 && at < hash {
				continue // sizes have a test of their own
			}
			damaged := []byte(whole)
			damaged[at] ^= 0x41
			b.write("x", string(damaged))
			if code, _, _ := b.call(unbundleArgs("bc", "x", hip+"gfx906")...); code == 0 {
				// Not every bit of a frame has a meaning.
				if b.read("out0") != content {
					t.Errorf("version %s, byte %d: damage goes unnoticed", version, at)
				}
				os.Remove(filepath.Join(b.dir, "out0"))
			}
		}
		damaged := []byte(whole)
		damaged[hash] ^= 1
		b.write("x", string(damaged))
		b.fails([]string{"x: byte 0x", "hash", "damaged"}, unbundleArgs("bc", "x", hip+"gfx906")...)
		b.must(append(unbundleArgs("bc", "x", hip+"gfx906"), "-lenient")...)
		b.want("out0", content)
		os.Remove(filepath.Join(b.dir, "out0"))
	}
}

func TestSizesThatCannotBe(t *testing.T) {
	b := newBench(t)
	b.must(append(b.bundleArgs("bc", "x", hip+"gfx906", "content"), "-compress")...)
	whole := []byte(b.read("x"))
	for _, at := range []int{8, 16} {
		for _, n := range []uint64{0, 1, 31, uint64(len(whole)) + 1, 1 << 20, 1 << 31, 1 << 40, 1 << 62, ^uint64(0)} {
			damaged := slices.Clone(whole)
			binary.LittleEndian.PutUint64(damaged[at:], n)
			b.write("x", string(damaged))
			b.fails(nil, unbundleArgs("bc", "x", hip+"gfx906")...)
		}
	}
}

func TestUnknownVersions(t *testing.T) {
	b := newBench(t)
	b.must(append(b.bundleArgs("bc", "x", hip+"gfx906", "content"), "-compress")...)
	for _, version := range []uint16{0, 4, 5, 255, 65535} {
		damaged := []byte(b.read("x"))
		binary.LittleEndian.PutUint16(damaged[4:], version)
		b.write("y", string(damaged))
		b.fails([]string{"y: byte 0x4: version ", fmt.Sprint(version)}, "-type=bc", "-list", "-input=y")
		b.fails([]string{"y: byte 0x4: version "}, unbundleArgs("bc", "y", hip+"gfx906")...)
	}
}

func TestArchiveCheckSeesCompressedMembers(t *testing.T) {
	b := newBench(t)
	b.write("bad", plainBundle(t, hip+"gfx906", "one", "hip-"+amd+"gfx906:xnack+", "two"))
	b.write("z", compressedObject(t, b.read("bad")))
	b.write("x.a", archive(t, "good.bc", plainBundle(t, hip+"gfx906", "x"), "z.bc", b.read("z")))
	b.fails([]string{"conflicting TargetIDs [" + hip + "gfx906, " + hip + "gfx906:xnack+] found in z.bc of x.a"},
		append(unbundleArgs("a", "x.a", hip+"gfx906"), "-check-input-archive")...)
}

func TestArchiveMembersThatAreDamaged(t *testing.T) {
	b := newBench(t)
	b.must(append(b.bundleArgs("bc", "z", hip+"gfx906", "content"), "-compress")...)
	z := []byte(b.read("z"))
	z[24] ^= 1
	b.write("x.a", archive(t, "good.bc", plainBundle(t, hip+"gfx906", "x"), "bad.bc", string(z)))
	b.fails([]string{"x.a(bad.bc): ", "hash"}, unbundleArgs("a", "x.a", hip+"gfx906")...)
}

func TestArchiveCutShort(t *testing.T) {
	b := newBench(t)
	whole := archive(t, "one.bc", plainBundle(t, hip+"gfx906", "x"), "two.bc", plainBundle(t, hip+"gfx906", "y"))
	b.write("x.a", whole[:len(whole)-10])
	b.fails([]string{"truncated or malformed archive", "two.bc"}, append(unbundleArgs("a", "x.a", hip+"gfx906"), "-allow-missing-bundles")...)
}

func TestBrokenSections(t *testing.T) {
	b := newBench(t)
	b.bundle("o", "x", hostTarget, hostObject(t), "openmp-"+amd+"gfx906", "device content")
	whole := b.read("x")
	for n := range len(whole) {
		b.write("y", whole[:n])
		b.call("-type=o", "-list", "-input=y")
		b.call(append(unbundleArgs("o", "y", hostTarget, "openmp-"+amd+"gfx906"), "-allow-missing-bundles")...)
	}
	for at := range len(whole) {
		for _, bit := range []byte{0x01, 0x80, 0xff} {
			damaged := []byte(whole)
			damaged[at] ^= bit
			b.write("y", string(damaged))
			b.call("-type=o", "-list", "-input=y")
			b.call(append(unbundleArgs("o", "y", hostTarget, "openmp-"+amd+"gfx906"), "-allow-missing-bundles")...)
		}
	}
}

func TestDebugOnly(t *testing.T) {
	b := newBench(t)
	b.bundle("bc", "x", hip+"gfx906", "one", hip+"gfx908:xnack+", "two")
	code, _, stderr := b.call(append(unbundleArgs("bc", "x", hip+"gfx906:xnack-", hip+"gfx908:xnack+"), "-debug-only=CodeObjectCompatibility")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, line := range []string{
		"Compatible: Target IDs are compatible \t[CodeObject: " + hip + "gfx906]\t:\t[Target: " + hip + "gfx906:xnack-]\n",
		"Compatible: Exact match: \t[CodeObject: " + hip + "gfx908:xnack+]\t:\t[Target: " + hip + "gfx908:xnack+]\n",
	} {
		if !strings.Contains(stderr, line) {
			t.Errorf("no %q in\n%s", line, stderr)
		}
	}
}

// What LLVM's tool does without a word is done as well, with one.
func TestWarnings(t *testing.T) {
	b := newBench(t)
	b.write("x.a", archive(t, "one.bc", plainBundle(t, hip+"gfx906", "x")))
	warning := func(want string, args ...string) {
		t.Helper()
		code, _, stderr := b.call(args...)
		if code != 0 || !strings.Contains(stderr, "warning: "+want) {
			t.Errorf("%q: exit code %d, %q; want %q", args, code, stderr, want)
		}
	}
	warning("-list does not read the members of an archive", "-type=a", "-list", "-input=x.a")
	if _, _, stderr := b.call("-type=a", "-list", "-input=x.a", "-verbose"); !strings.HasSuffix(stderr, "\nUncompressed bundle.\n") {
		t.Errorf("with -verbose: %q; want LLVM's line", stderr)
	}
	b.write("in", "code")
	warning("target 'hip-amdgcn-amd-amdhsa-gfx906': the triple has three fields, so gfx906 is its environment and the entry has no processor; write 'hip-amdgcn-amd-amdhsa--gfx906'",
		"-type=bc", "-targets=hip-amdgcn-amd-amdhsa-gfx906", "-input=in", "-output=out")

	// Two IDs of one length: the second becomes the first.
	twice := strings.Replace(plainBundle(t, hip+"gfx906", "first", hip+"gfx90a", "last"), hip+"gfx90a", hip+"gfx906", 1)
	b.write("twice", twice)
	b.write("twice.ccob", compressedObject(t, twice))
	b.write("twice.a", archive(t, "one.bc", twice))
	want := `entry 2: has the same ID "hip-amdgcn-amd-amdhsa--gfx906" as entry 1 of the bundle, and the last of them is used`
	warning("twice: "+want, "-type=bc", "-list", "-input=twice")
	warning("twice.ccob: "+want, "-type=bc", "-list", "-input=twice.ccob")
	warning("twice: "+want, unbundleArgs("bc", "twice", hip+"gfx906")...)
	b.want("out0", "last")
	warning("twice.a(one.bc): "+want, "-type=a", "-unbundle", "-input=twice.a", "-targets="+hip+"gfx906", "-output=out")

	marker := func(which, id string) string { return "\n// __CLANG_OFFLOAD_BUNDLE____" + which + "__ " + id + "\n" }
	b.write("end", marker("START", hip+"gfx906")+"first"+marker("END", hip+"gfx90a")+marker("START", hip+"gfx906")+"last"+marker("END", hip+"gfx906"))
	warning(`end: entry 1: its START line has the ID "hip-amdgcn-amd-amdhsa--gfx906", its END line "hip-amdgcn-amd-amdhsa--gfx90a"; recreate the bundle`, "-type=ii", "-list", "-input=end")
	warning(`end: entry 2: has the same ID "hip-amdgcn-amd-amdhsa--gfx906" as entry 1 of the bundle, and the first of them is used`, unbundleArgs("ii", "end", hip+"gfx906")...)
	b.want("out0", "first")

	if code, _, stderr := b.call("-type=bc", "-targets="+hip+"gfx906", "-input=in", "-output=out2"); code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// Of several bundles in a file, one rule holds as in one bundle: an exact match wins, wherever it is; of equally good
// entries, the first.
func TestExactMatchInLaterBundle(t *testing.T) {
	b := newBench(t)
	first := plainBundle(t, hip+"gfx906", "any", hip+"gfx942", "first")
	later := plainBundle(t, hip+"gfx906:xnack+", "exact", hip+"gfx942", "later")
	b.write("x", first+later)
	b.must(unbundleArgs("bc", "x", hip+"gfx906:xnack+", hip+"gfx906:xnack-", hip+"gfx942")...)
	b.want("out0", "exact", "out1", "any", "out2", "first")
}
