package parsers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/tinylib/msgp/msgp"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/registerir"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// fixtures makes package fixture usable outside tests. Its functions call only Helper and Fatal.
type fixtures struct{ testing.TB }

func (fixtures) Helper() {}

func (fixtures) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

var t fixtures

// written returns the output of write.
func written(write func(content.Sink) error) []byte { return fixture.Bytes(t, write) }

// ids are the entries of the bundles.
var ids = []string{"host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx906", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"}

// images returns device images: none for the host, small code objects for the rest.
func images() [][]byte {
	code := func(name string, flags uint32) []byte {
		return testelf.CodeObject{ABI: 4, Flags: flags, Kernels: []testelf.Kernel{{Name: name, CodeSize: 64}}}.Build()
	}
	return [][]byte{nil, code("gemm", 0x2f), code("scan", 0x33f)}
}

// plainBundle returns a bundle, and its pieces for compression.
func plainBundle(contents [][]byte, align uint64) (raw []byte, pieces []content.Part) {
	var items []bundle.Item
	for i, c := range contents {
		items = append(items, bundle.Item{ID: ids[i], Content: content.Memory(c)})
	}
	layout, err := bundle.NewLayout(items, bundle.Options{Align: align})
	if err != nil {
		panic(err)
	}
	return written(layout.Write), layout.Parts
}

// bundles returns plain bundles.
func bundles() [][]byte {
	short := [][]byte{nil, []byte("\x7fELF one"), []byte("\x7fELF the second")}
	small, _ := plainBundle(short, 1)
	aligned, _ := plainBundle(short, 64)
	large, _ := plainBundle(images(), 1)
	return [][]byte{small, aligned, large, append(bytes.Clone(small), aligned...)}
}

// container returns a compressed bundle with the given frames.
func container(version, method uint16, raw, data []byte) []byte {
	h := ccob.NewHasher()
	h.Write(raw)
	le := binary.LittleEndian
	b := le.AppendUint16(le.AppendUint16([]byte("CCOB"), version), method)
	switch version {
	case 1:
		b = le.AppendUint32(b, uint32(len(raw)))
	case 2:
		b = le.AppendUint32(le.AppendUint32(b, uint32(24+len(data))), uint32(len(raw)))
	default:
		b = le.AppendUint64(le.AppendUint64(b, uint64(32+len(data))), uint64(len(raw)))
	}
	return append(le.AppendUint64(b, h.Sum()), data...)
}

func zstdOf(raw []byte) []byte {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return e.EncodeAll(raw, nil)
}

func zlibOf(raw []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	w.Write(raw)
	w.Close()
	return b.Bytes()
}

// compressed returns compressed bundles in all forms.
func compressed() [][]byte {
	var list [][]byte
	for _, contents := range [][][]byte{{nil, []byte("\x7fELF one"), bytes.Repeat([]byte("\x7fELF the second"), 9)}, images()} {
		raw, pieces := plainBundle(contents, 8)
		for _, version := range []uint16{1, 2, 3} {
			list = append(list, container(version, 1, raw, zstdOf(raw)), container(version, 0, raw, zlibOf(raw)))
		}
		for _, o := range []ccob.EncodeOptions{{Frames: ccob.FramesOne}, {Frames: ccob.FramesEntry}, {Frames: ccob.FramesEntry, Version: 2}} {
			list = append(list, written(func(out content.Sink) error {
				_, err := ccob.Encode(context.Background(), out, pieces, o)
				return err
			}))
		}
	}
	return append(list, append(bytes.Clone(list[0]), list[1]...))
}

// plansAndParts returns a plan and parts for Assemble, each after its length.
func plansAndParts() [][]byte {
	_, pieces := plainBundle(images(), 64)
	var list [][]byte
	for _, frames := range []ccob.Frames{ccob.FramesAuto, ccob.FramesEntry} {
		o := ccob.EncodeOptions{Frames: frames}
		var planned, first, second content.Buffer
		if err := errors.Join(
			ccob.EncodePlan(context.Background(), &planned, pieces, o),
			ccob.EncodePart(context.Background(), &first, []content.Part{{Content: pieces[2].Content}}, pieces[3].Offset-pieces[2].Offset, o),
			ccob.EncodePart(context.Background(), &second, []content.Part{{Content: pieces[3].Content}}, 0, o),
		); err != nil {
			panic(err)
		}
		list = append(list, joined(planned.Bytes(), first.Bytes(), second.Bytes()))
	}
	return list
}

// joined concatenates inputs; split separates them.
func joined(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(p))), p...)
	}
	return b
}

// split is the inverse of joined, for any input.
func split(data []byte, n int) [][]byte {
	parts := make([][]byte, n)
	for i := range parts {
		if len(data) < 2 {
			break
		}
		size := min(int(binary.LittleEndian.Uint16(data)), len(data)-2)
		parts[i], data = data[2:2+size:2+size], data[2+size:]
	}
	return parts
}

// packages returns offload binaries of all versions.
func packages() [][]byte {
	image := func(arch, body string) offloadbinary.Image {
		return offloadbinary.Image{
			Kind: offloadbinary.Object, Offload: offloadbinary.HIP, Content: content.Memory([]byte(body)),
			Properties: offloadbinary.Properties{{Key: "triple", Value: "amdgcn-amd-amdhsa"}, {Key: "arch", Value: arch}},
		}
	}
	one := []offloadbinary.Image{image("gfx906", "one")}
	two := append(slices.Clone(one), image("gfx90a:xnack+", strings.Repeat("the second ", 30)))
	var list [][]byte
	for version := 1; version <= 2; version++ {
		list = append(list, written(func(out content.Sink) error { return offloadbinary.Write(out, version, one) }))
	}
	list = append(list, written(func(out content.Sink) error { return offloadbinary.Write(out, 2, two) }))
	for _, c := range []offloadbinary.Compression{{}, {Zlib: true, Level: 6}} {
		list = append(list, written(func(out content.Sink) error {
			return offloadbinary.WriteCompressed(context.Background(), out, two, c)
		}))
	}
	return append(list, slices.Concat(list[0], make([]byte, 8), list[1]), slices.Concat(list[3], list[0]))
}

// archives returns archives of all kinds.
func archives() [][]byte {
	gnu := written(func(out content.Sink) error {
		return ar.Write(context.Background(), out, []ar.NewMember{
			{Name: "a.o", Data: content.Memory([]byte("first")), Object: true, Symbols: []string{"f", "g"}},
			{Name: "a_name_of_many_letters.o", Data: content.Memory([]byte("the second")), Object: true, Symbols: []string{"h"}},
		})
	})
	member := func(name, body string) string {
		return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n%s%s", name, 0, 0, 0, "644", len(body), body, strings.Repeat("\n", len(body)%2))
	}
	number := func(order binary.AppendByteOrder, width int, values ...uint64) string {
		var b []byte
		for _, v := range values {
			if width == 8 {
				b = order.AppendUint64(b, v)
			} else {
				b = order.AppendUint32(b, uint32(v))
			}
		}
		return string(b)
	}
	big, little := binary.BigEndian, binary.LittleEndian
	const magic = "!<arch>\n"
	raw, _ := plainBundle([][]byte{nil, []byte("\x7fELF one"), []byte("\x7fELF the second")}, 8)
	code := fixture.Archive(t, "a-openmp.o", string(raw), "b.o", string(container(3, 1, raw, zstdOf(raw))), "c.o", string(fixture.ELF(t, ".hip_fatbin", string(raw))))
	list := [][]byte{gnu, fixture.ThinArchive("dir/a.o", 12345), code}
	for _, text := range []string{
		member("//", "x/\n\n") + member("/0", "hi") + member("b/", "odd"),
		member("/SYM64/", number(big, 8, 1, 86)+"f\x00") + member("a.o/", "hi"),
		member("__.SYMDEF", number(little, 4, 8, 0, 86, 2)+"f\x00") + member("#1/4", "a.o\x00hi"),
		member("__.SYMDEF_64", number(little, 8, 16, 0, 110, 2)+"f\x00") + member("#1/4", "a.o\x00hi"),
		member("/", number(big, 4, 1, 150)+"f\x00") + member("/", number(little, 4, 1, 150, 1)+"\x01\x00f\x00") + member("a.o/", "hi"),
	} {
		list = append(list, []byte(magic+text))
	}
	return list
}

// codeObjects returns AMD code objects of several ABIs.
func codeObjects() [][]byte {
	gemm := testelf.Kernel{Name: "gemm", CodeSize: 64, Rsrc1: 0x00af0081, Rsrc3: 3, Keys: map[string]any{
		".vgpr_count": 32, ".sgpr_count": 20, ".kernarg_segment_size": 64, ".max_flat_workgroup_size": 256,
		".wavefront_size": 64, ".uses_dynamic_stack": false, ".reqd_workgroup_size": []int{64, 2, 1},
	}}
	return [][]byte{
		testelf.CodeObject{ABI: 4, Flags: 0x3f, Kernels: []testelf.Kernel{gemm}}.Build(),
		testelf.CodeObject{ABI: 3, Flags: 0x41, Kernels: []testelf.Kernel{{Name: "k"}, gemm}, NoSections: true, Variables: map[string]string{"k_exec_mode": "\x01"}}.Build(),
		testelf.CodeObject{ABI: 0, Flags: 0x2a, Metadata: []byte("Kernels:\n  - Name: x\n    CodeProps:\n      NumVGPRs: 7\n")}.Build(),
	}
}

// cubins returns NVIDIA's device code.
func cubins() [][]byte {
	record := func(attribute byte, values ...uint32) []byte {
		b := binary.LittleEndian.AppendUint16([]byte{4, attribute}, uint16(4*len(values)))
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	b := object.NewBuilder(190)
	section := func(name string, body []byte) object.SectionID {
		return b.Section(object.BuilderSection{Name: name, Type: elf.ShtProgbits, Content: content.Memory(body)})
	}
	text := section(".text._Z4gemmPf", make([]byte, 32))
	section(".nv.info", append(record(0x2f, 1, 40), record(0x11, 1, 16)...))
	own := append(record(0x05, 256, 2, 1), 3, 0x19, 24, 0)
	section(".nv.info._Z4gemmPf", append(own, record(0x10, 16, 16, 1)...))
	section(".nv.constant0._Z4gemmPf", make([]byte, 16))
	b.Section(object.BuilderSection{Name: ".nv.shared._Z4gemmPf", Type: elf.ShtNobits, Size: 4096})
	b.Symbol(object.BuilderSymbol{Name: "_Z4gemmPf", Section: text, Size: 32, Bind: elf.BindGlobal, Type: elf.TypeFunc})
	data := written(b.Write)
	binary.LittleEndian.PutUint32(data[48:], 80)
	return [][]byte{data}
}

// spirvs returns SPIR-V modules of both byte orders.
func spirvs() (list [][]byte) {
	instruction := func(op uint32, operands ...any) []uint32 {
		words := []uint32{op}
		for _, o := range operands {
			switch v := o.(type) {
			case int:
				words = append(words, uint32(v))
			case string:
				b := append([]byte(v), make([]byte, 4-len(v)%4)...)
				for ; len(b) > 0; b = b[4:] {
					words = append(words, binary.LittleEndian.Uint32(b))
				}
			}
		}
		words[0] |= uint32(len(words)) << 16
		return words
	}
	words := slices.Concat([]uint32{0x07230203, 0x10400, 0, 100, 0},
		instruction(17, 6), instruction(15, 6, 3, "_Z4gemmPf"), instruction(15, 6, 5, "abc", 9), instruction(16, 5, 17, 8, 4, 1),
		instruction(16, 5, 35, 32), instruction(71, 20, 41, "table", 0), instruction(71, 21, 41, "__hip_cuid_1", 0),
		instruction(59, 1, 20, 5), instruction(59, 1, 21, 5), instruction(54, 1, 2, 0, 3))
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		var data []byte
		for _, w := range words {
			data = order.AppendUint32(data, w)
		}
		list = append(list, data)
	}
	return list
}

const ptxModule = `.version 7.0
.target sm_80, debug
.address_size 64
/* .entry commented( */
.visible .entry declared;
.visible .entry _Z4gemmPf(
	.param .u64 .ptr .align 1 _Z4gemmPf_param_0
)
.maxntid 256, 2, 1
{
	.shared .align 4 .b8 s[4096]; // .entry none(
	ret;
}
.file 1 "a .entry quoted( .cu"
.entry exact() .reqntid 16,16 { ret; }
`

// kpacks returns kpack archives of both schemes.
func kpacks() (list [][]byte) {
	one, two := bytes.Repeat([]byte("one"), 40), bytes.Repeat([]byte("two"), 10)
	for _, scheme := range []kpack.Scheme{kpack.None, kpack.Zstd} {
		a := &kpack.Archive{Group: "math", Family: "gfx90X", Archs: []string{"gfx90a:xnack-", "gfx90a"}, Scheme: scheme}
		for i, e := range []kpack.Entry{
			{Key: "lib/a.so#0", Arch: "gfx90a:xnack-", Target: "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", Metadata: map[string]any{"target": "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", "source_prefix": "math"}},
			{Key: "lib/a.so#1", Arch: "gfx90a:xnack-", Ordinal: 1},
			{Key: "lib/a.so#2", Arch: "gfx90a"},
		} {
			data := [][]byte{one, two, one}[i]
			e.Type, e.Size = "hsaco", int64(len(data))
			if scheme == kpack.Zstd {
				data = zstdOf(data)
			}
			e.Stored = content.Memory(data)
			a.Entries = append(a.Entries, e)
		}
		list = append(list, written(func(out content.Sink) error { return kpack.Write(out, a) }))
	}
	return append(list, append(bytes.Clone(list[0][:16]), 0xdf, 0xff, 0xff, 0xff, 0xff))
}

// splitLibraries returns libraries whose code is in archives: the wrapper refers to a marker.
func splitLibraries() (list [][]byte) {
	marker := func(b []byte) []byte {
		b = msgp.AppendArrayHeader(msgp.AppendString(b, "kpack_search_paths"), 1)
		return msgp.AppendString(b, "../.kpack/m_@GFXARCH@.kpack")
	}
	whole := marker(msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(nil, 2), "kernel_name"), "lib/a.so"))
	for _, m := range [][]byte{whole, marker(msgp.AppendMapHeader(nil, 1))} {
		data := testelf.Library{Bundles: [][]byte{m}, Wrappers: []int{0}, Section: ".rocm_kpack_ref"}.Build()
		list = append(list, bytes.Replace(data, []byte("FPIH\x01"), []byte("HIPK\x01"), 1))
	}
	return list
}

// libraries returns linked files with device code.
func libraries() (list [][]byte) {
	raw, _ := plainBundle([][]byte{nil, []byte("\x7fELF one"), bytes.Repeat([]byte("\x7fELF the second"), 9)}, 8)
	packed := container(3, 1, raw, zstdOf(raw))
	for _, l := range []testelf.Library{
		{Bundles: [][]byte{raw}, Wrappers: []int{0}},
		{Bundles: [][]byte{raw, packed}, Wrappers: []int{0, 1, 1}, Relr: true},
		{Bundles: [][]byte{packed}, Wrappers: []int{0}, Exec: true},
		{Bundles: [][]byte{raw}, Wrappers: []int{0}, Symbol: true, Machine: 183, Appended: []byte("signature")},
	} {
		list = append(list, l.Build())
	}
	return list
}

// hostObjects returns relocatable objects with device code.
func hostObjects() [][]byte {
	raw, _ := plainBundle([][]byte{nil, []byte("\x7fELF one"), []byte("\x7fELF the second")}, 8)
	image := packages()[0]
	list := [][]byte{
		fixture.ELF(t, ".hip_fatbin", string(container(3, 1, raw, zstdOf(raw)))),
		fixture.ELF(t, ".llvm.offloading:offloading", string(image)),
		fixture.ELF(t, ".nv_fatbin", string(fixture.Fatbinary("body"))),
		fixture.ELF(t, "__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx906", "one"),
		fixture.HostObject(t, "\xc3"),
	}
	for _, kind := range []offloadbinary.OffloadKind{offloadbinary.OpenMP, offloadbinary.HIP} {
		o := &register.Object{Machine: elf.MachineX8664, Registrations: []register.Registration{{Kind: kind, Images: []register.Image{{Content: content.Memory(raw)}}}}}
		list = append(list, written(o.Write))
	}
	return append(list, written(func(out content.Sink) error {
		b := new(object.COFFBuilder)
		s := b.Section(object.BuilderSection{Name: ".llvm.offloading", Type: elf.ShtProgbits, Align: 8, Content: content.Memory(image)})
		b.Symbol(object.BuilderSymbol{Name: "a_name_of_many_letters", Section: s, Size: 1, Bind: elf.BindGlobal})
		return b.Write(out)
	}))
}

// modules returns bitcode that the program writes.
func modules() (list [][]byte) {
	for _, kind := range []offloadbinary.OffloadKind{offloadbinary.OpenMP, offloadbinary.HIP} {
		m := registerir.Module{Triple: "x86_64-unknown-linux-gnu", Registration: register.Registration{Kind: kind, Images: []register.Image{{Content: content.Memory([]byte("image"))}}}}
		var b bytes.Buffer
		if err := m.WriteBitcode(&b); err != nil {
			panic(err)
		}
		list = append(list, b.Bytes())
	}
	return list
}

// textBundles returns bundles of text types.
func textBundles() [][]byte {
	const m = "__CLANG_OFFLOAD_BUNDLE__"
	one := "\n// " + m + "__START__ host-x86_64-unknown-linux-gnu-\nint a;\n\n// " + m + "__END__ host-x86_64-unknown-linux-gnu-\n"
	two := "\n// " + m + "__START__ hip-amdgcn-amd-amdhsa--gfx906\nint b;\n// " + m + "__STAR\n\n// " + m + "__END__ hip-amdgcn-amd-amdhsa--gfx906\n"
	return [][]byte{[]byte(one + two), []byte(one), []byte(strings.ReplaceAll(one+two, "//", "#"))}
}

// testdata returns files of the directory testdata in the directory of a package, whose name ends as given.
func testdata(roots []string, dir, end string) (list [][]byte, err error) {
	for _, root := range roots {
		names, err := filepath.Glob(filepath.Join(root, dir, "testdata", "*"+end))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			list = append(list, data)
		}
		if len(list) > 0 {
			return list, nil
		}
	}
	return nil, fmt.Errorf("no %s in the directory testdata of %s below %v", end, dir, roots)
}
