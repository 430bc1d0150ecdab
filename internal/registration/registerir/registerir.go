// Package registerir makes the registration of device images as LLVM IR: the
// module that llvm-offload-wrapper makes, for steps that read IR, and for hosts
// that package register has no code for
// (llvm/lib/Frontend/Offloading/OffloadWrapper.cpp of LLVM 22 to 24).
package registerir

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/llvm/dialect"
	ir "github.com/rules-offload/rules_offload/internal/llvm/llvmir"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// Module is the module of one registration.
type Module struct {
	// Triple is the host's.
	Triple string
	// Release is the release that reads the module.
	Release target.Release
	// Registration describes what to register. An empty image is allowed.
	Registration register.Registration
	// Relocatable keeps OpenMP's images from later device links.
	Relocatable bool
	// PageAligned aligns the images of HIP as its runtime reads them, which LLVM
	// omits.
	PageAligned bool
}

// WriteText writes the module as text, as clang-linker-wrapper prints it.
func (m *Module) WriteText(w io.Writer) error {
	module, err := m.build()
	if err != nil {
		return err
	}
	if !dialect.Of(m.Release).IR.DataLayout {
		module.Layout = ""
	}
	return module.WriteText(w)
}

// WriteBitcode writes the module as bitcode. In contrast to LLVM's it has a data
// layout, without which lld rejects it.
func (m *Module) WriteBitcode(w io.Writer) error {
	module, err := m.build()
	if err != nil {
		return err
	}
	return module.WriteBitcode(w)
}

func (m *Module) build() (*ir.Module, error) {
	if strings.ContainsAny(m.Triple, "\"\\\n") {
		return nil, fmt.Errorf("triple %q: expected letters, digits and dashes", m.Triple)
	}
	const name = "offload.wrapper.module"
	triple := target.ParseTriple(target.Normalize(m.Triple, 4))
	b := &builder{Module: m, dialect: dialect.Of(m.Release).IR, format: string(triple.Format)}
	b.to = &ir.Module{Source: name, Triple: m.Triple, Layout: layout(triple.Arch, b.format)}
	b.startup = ".text.startup"
	if b.format == "macho" {
		b.startup = "__TEXT,__StaticInit"
	}
	r, runtime := &m.Registration, runtimes.Of(m.Registration.Kind)
	switch {
	case runtime == nil:
		return nil, fmt.Errorf("unknown kind %d", r.Kind)
	case runtime.Form == runtimes.Images:
		b.openMP(r.Images)
	case runtime.Form == runtimes.OffloadBinary && !r.Package:
		b.sycl(r.Images)
	case len(r.Images) != 1:
		return nil, errors.New("expected one image")
	case r.Package:
		b.syclPackage(r.Images[0])
	default:
		b.fatBinary(runtime, r.Images[0])
	}
	return b.to, nil
}

// layout returns the data layout of a host with 64 bits, the same in LLVM 22 to 24; "" for others.
func layout(arch target.Arch, format string) string {
	switch string(arch) + " " + format {
	case "x86_64 elf":
		return "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
	case "x86_64 coff":
		return "e-m:w-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
	case "x86_64 macho":
		return "e-m:o-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
	case "aarch64 elf":
		return "e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32"
	case "aarch64 coff":
		return "e-m:w-p270:32:32-p271:32:32-p272:64:64-p:64:64-i32:32-i64:64-i128:128-n32:64-S128-Fn32"
	case "aarch64 macho":
		return "e-m:o-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-n32:64-S128-Fn32"
	}
	return ""
}

// builder builds a module.
type builder struct {
	*Module
	dialect dialect.IR
	to      *ir.Module
	format  string
	startup string // section of constructors

	entry *ir.Type // of an offload entry
	// start and stop are where the offload entries begin and end.
	start, stop ir.Value
}

// offloadEntry is an entry of the table of kernels and variables.
func (b *builder) offloadEntry() *ir.Type {
	if b.entry == nil {
		b.entry = b.named("struct.__tgt_offload_entry", ir.I64, ir.I16, ir.I16, ir.I32, ir.Ptr, ir.Ptr, ir.I64, ir.I64, ir.Ptr)
	}
	return b.entry
}

// Fields of an offload entry.
const (
	fieldKind = iota + 2
	fieldFlags
	fieldAddress
	fieldName
	fieldSize
	fieldData
	fieldAux
)

func (b *builder) named(name string, fields ...*ir.Type) *ir.Type {
	t := ir.Named(name, fields...)
	b.to.Structs = append(b.to.Structs, t)
	return t
}

// global adds a global variable to the module.
func (b *builder) global(g ir.Global) *ir.Global {
	if g.Init != nil {
		g.Content = g.Init.Type()
	}
	b.to.Globals = append(b.to.Globals, &g)
	return &g
}

func (b *builder) declare(name string, result *ir.Type, params ...*ir.Type) *ir.Function {
	f := &ir.Function{Name: name, Signature: ir.Func(result, params...)}
	b.to.Functions = append(b.to.Functions, f)
	return f
}

// define adds a function without a result, with a first block.
func (b *builder) define(name string, params ...*ir.Type) (*ir.Function, *ir.Block) {
	f := b.declare(name, ir.Void, params...)
	f.Section = b.startup
	for _, t := range params {
		f.Params = append(f.Params, &ir.Param{T: t})
	}
	return f, block(f, "entry")
}

func block(f *ir.Function, name string) *ir.Block {
	b := &ir.Block{Name: name}
	f.Blocks = append(f.Blocks, b)
	return b
}

func i32(v int64) ir.Value { return ir.Int(ir.I32, v) }
func i64(v int64) ir.Value { return ir.Int(ir.I64, v) }

// null is the null pointer.
func null() ir.Value { return ir.Zero(ir.Ptr) }

// bounds adds where the offload entries start and stop.
func (b *builder) bounds() {
	entry := b.offloadEntry()
	none := ir.Array(0, entry)
	switch b.format {
	case "coff":
		t, align := none, int64(0)
		if b.dialect.BoundingEntries {
			t, align = ir.Array(1, entry), 8
		}
		bound := func(name, section string) *ir.Global {
			return b.global(ir.Global{Name: name, Init: ir.Zero(t), Linkage: ir.WeakODR, Hidden: true, Constant: true, Section: section, Align: align})
		}
		start := bound("__start_llvm_offload_entries", "llvm_offload_entries$OA")
		b.start, b.stop = start, bound("__stop_llvm_offload_entries", "llvm_offload_entries$OZ")
		if b.dialect.BoundingEntries {
			const size = 56
			b.start = ir.AddressInbounds(ir.I8, start, i64(size))
		}
		return
	case "macho":
		b.start = b.global(ir.Global{Name: "\x01section$start$__LLVM$offload_entries", Content: none, Hidden: true, Constant: true})
		b.stop = b.global(ir.Global{Name: "\x01section$end$__LLVM$offload_entries", Content: none, Hidden: true, Constant: true})
		if !b.dialect.MachOEntries {
			return
		}
		b.dummy("__LLVM,offload_entries")
	default:
		b.start = b.global(ir.Global{Name: "__start_llvm_offload_entries", Content: none, Hidden: true, Constant: true})
		b.stop = b.global(ir.Global{Name: "__stop_llvm_offload_entries", Content: none, Hidden: true, Constant: true})
		b.dummy("llvm_offload_entries")
	}
}

// dummy adds what makes the section of the offload entries exist.
func (b *builder) dummy(section string) {
	dummy := b.global(ir.Global{Name: "__dummy." + section, Init: ir.Zero(ir.Array(0, b.entry)), Linkage: ir.Internal, Constant: true, Section: section, Align: 8})
	used := "llvm.compiler.used"
	if b.dialect.RetainedEntries {
		used = "llvm.used"
	}
	b.global(ir.Global{Name: used, Init: array(ir.Ptr, dummy), Linkage: ir.Appending, Section: "llvm.metadata"})
}

func array(element *ir.Type, values ...ir.Value) ir.Value {
	return ir.Aggregate(ir.Array(int64(len(values)), element), values...)
}

// at is an address in an array of bytes or of entries.
func (b *builder) at(base *ir.Global, offset int64) ir.Value {
	switch {
	case offset == 0:
		return base
	case b.dialect.ByteOffsets:
		return ir.Address(ir.I8, base, i64(offset))
	}
	return ir.Address(base.Content, base, i64(0), i64(offset))
}

// constructor adds the table of constructors, or that of destructors.
func (b *builder) constructor(table string, priority int64, f *ir.Function) {
	t := ir.Struct(ir.I32, ir.Ptr, ir.Ptr)
	b.global(ir.Global{Name: "llvm.global_" + table, Linkage: ir.Appending, Init: array(t, ir.Aggregate(t, i32(priority), f, null()))})
}

// openMP makes the module for OpenMP.
func (b *builder) openMP(images []register.Image) {
	b.offloadEntry()
	imageType := b.named("__tgt_device_image", ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr)
	descriptorType := b.named("__tgt_bin_desc", ir.I32, ir.Ptr, ir.Ptr, ir.Ptr)
	b.bounds()
	section := embedding.OffloadSection
	if b.Relocatable {
		section += ".relocatable"
	}
	if b.format == "macho" {
		section = "__LLVM,__offloading"
	}
	var devices []ir.Value
	for i := range images {
		name := ".omp_offloading.device_image"
		if i > 0 {
			name = fmt.Sprintf("%s.%d", name, i)
		}
		c := images[i].Content
		image := b.global(ir.Global{Name: name, Init: &ir.Bytes{Content: c}, Linkage: ir.Internal, UnnamedAddr: true, Constant: true, Section: section, Align: 8})
		ranges := images[i].Devices
		if ranges == nil {
			ranges = []register.Range{{Offset: 0, Size: c.Len()}}
		}
		for _, r := range ranges {
			devices = append(devices, ir.Aggregate(imageType, b.at(image, r.Offset), b.at(image, r.Offset+r.Size), b.start, b.stop))
		}
	}
	list := b.global(ir.Global{Name: ".omp_offloading.device_images", Init: array(imageType, devices...), Linkage: ir.Internal, UnnamedAddr: true, Constant: true})
	descriptor := b.global(ir.Global{Name: ".omp_offloading.descriptor", Linkage: ir.Internal, Constant: true,
		Init: ir.Aggregate(descriptorType, i32(int64(len(devices))), list, b.start, b.stop)})

	add, start := b.define(".omp_offloading.descriptor_reg")
	addLibrary := b.declare("__tgt_register_lib", ir.Void, ir.Ptr)
	atexit := b.declare("atexit", ir.I32, ir.Ptr)
	remove, end := b.define(".omp_offloading.descriptor_unreg")
	removeLibrary := b.declare("__tgt_unregister_lib", ir.Void, ir.Ptr)
	b.constructor("ctors", 101, add)
	start.Call(addLibrary, descriptor)
	start.Call(atexit, remove)
	start.Ret()
	end.Call(removeLibrary, descriptor)
	end.Ret()
}

// fatBinary makes the module for the runtime of a fat binary.
func (b *builder) fatBinary(of *runtimes.Runtime, body register.Image) {
	sections := of.Sections
	if b.format == "macho" {
		sections = of.MachO
	}
	b.offloadEntry()
	wrapperType := b.named("fatbin_wrapper", ir.I32, ir.I32, ir.Ptr, ir.Ptr)
	b.bounds()
	align := int64(0)
	if of.Mapped && b.PageAligned {
		align = 4096
	}
	image := b.global(ir.Global{Name: ".fatbin_image", Init: &ir.Bytes{Content: body.Content}, Linkage: ir.Internal, Constant: true, Section: sections.Image, Align: align})
	wrapper := b.global(ir.Global{Name: ".fatbin_wrapper", Linkage: ir.Internal, Constant: true, Section: sections.Wrapper, Unsanitized: b.dialect.UnsanitizedWrapper, Align: 8,
		Init: ir.Aggregate(wrapperType, i32(int64(of.Magic)), i32(1), image, null())})
	runtime := of.Kind.String()
	handle := b.global(ir.Global{Name: "." + runtime + ".binary_handle", Linkage: ir.Internal, Init: null()})

	add, start := b.define("." + runtime + ".fatbin_reg")
	remove, end := b.define("." + runtime + ".fatbin_unreg")
	addBinary := b.declare("__"+runtime+"RegisterFatBinary", ir.Ptr, ir.Ptr)
	last := "__cudaRegisterFatBinaryEnd" // LLVM declares it for all
	if of.Ends {
		last = of.Functions() + "RegisterFatBinaryEnd"
	}
	addEnd := b.declare(last, ir.Void, ir.Ptr)
	removeBinary := b.declare("__"+runtime+"UnregisterFatBinary", ir.Void, ir.Ptr)
	atexit := b.declare("atexit", ir.I32, ir.Ptr)
	entries := b.entries(of)
	b.constructor("ctors", 101, add)

	binary := start.Call(addBinary, wrapper)
	start.Store(binary, handle, 8)
	start.Call(entries, binary)
	if of.Ends {
		start.Call(addEnd, binary)
	}
	start.Call(atexit, remove)
	start.Ret()
	end.Call(removeBinary, end.Load("", ir.Ptr, handle, 8))
	end.Ret()
}

// entries adds the function that registers the offload entries of a kind with a
// runtime.
func (b *builder) entries(of *runtimes.Runtime) *ir.Function {
	runtime := of.Kind.String()
	function := b.declare("__"+runtime+"RegisterFunction", ir.I32, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.I32, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr)
	variable := b.declare("__"+runtime+"RegisterVar", ir.Void, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.I32, ir.I64, ir.I32, ir.I32)
	managed := b.declare("__"+runtime+"RegisterManagedVar", ir.Void, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.I64, ir.I32)
	surface := b.declare("__"+runtime+"RegisterSurface", ir.Void, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.I32, ir.I32)
	texture := b.declare("__"+runtime+"RegisterTexture", ir.Void, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.I32, ir.I32, ir.I32)

	f, first := b.define("."+runtime+".globals_reg", ir.Ptr)
	loop, ofKind, isFunction, isVariable := block(f, "while.entry"), block(f, "if.kind"), block(f, "if.then"), block(f, "if.else")
	isGlobal, isManaged, isSurface, isTexture := block(f, "sw.global"), block(f, "sw.managed"), block(f, "sw.surface"), block(f, "sw.texture")
	next, done := block(f, "if.end"), block(f, "while.end")
	first.Branch(first.NotEqual(b.start, b.stop), loop, done)

	entry := loop.Phi("entry1", ir.Ptr)
	field := func(name string, number int64, t *ir.Type, align int64) ir.Value {
		return loop.Load(name, t, loop.Element(b.entry, entry, i32(0), i32(number)), align)
	}
	word := int64(4) // alignment of 64-bit integers without a data layout
	if b.dialect.DataLayout {
		word = 8
	}
	binary := f.Params[0]
	address := field("addr", fieldAddress, ir.Ptr, 8)
	aux := field("aux_addr", fieldAux, ir.Ptr, 8)
	entryKind := field("kind", fieldKind, ir.I16, 2)
	name := field("name", fieldName, ir.Ptr, 8)
	size := field("size", fieldSize, ir.I64, word)
	flags := field("flags", fieldFlags, ir.I32, 4)
	data := loop.Trunc(field("data", fieldData, ir.I64, word), ir.I32)
	what := loop.And("type", flags, i32(7))
	bit := func(name string, number int64) ir.Value {
		return loop.ShiftRight(name, loop.And("", flags, i32(1<<number)), i32(number))
	}
	external, constant, normalized := bit("extern", 3), bit("constant", 4), bit("normalized", 5)
	loop.Branch(loop.Equal(entryKind, ir.Int(ir.I16, int64(of.Kind))), ofKind, next)

	ofKind.Branch(ofKind.Equal(size, i64(0)), isFunction, isVariable)
	isFunction.Call(function, binary, address, name, name, i32(-1), null(), null(), null(), null(), null())
	isFunction.Jump(next)
	isVariable.Switch(what, next, []ir.Value{i32(0), i32(1), i32(2), i32(3)}, []*ir.Block{isGlobal, isManaged, isSurface, isTexture})
	isGlobal.Call(variable, binary, address, name, name, external, size, constant, i32(0))
	isGlobal.Jump(next)
	isManaged.Call(managed, binary, aux, address, name, size, data)
	isManaged.Jump(next)
	if of.Textures {
		isSurface.Call(surface, binary, address, name, name, data, external)
		isTexture.Call(texture, binary, address, name, name, data, normalized, external)
	}
	isSurface.Jump(next)
	isTexture.Jump(next)

	following := next.Element(b.entry, entry, i64(1))
	entry.Add(b.start, first)
	entry.Add(following, next)
	next.Branch(next.Equal(following, b.stop), done, loop)
	done.Ret()
	return f
}

// syclPackage makes the module for SYCL from LLVM 23 on.
func (b *builder) syclPackage(image register.Image) {
	binary := b.global(ir.Global{Name: ".sycl_offloading.binary", Init: &ir.Bytes{Content: image.Content}, Linkage: ir.Internal, UnnamedAddr: true, Constant: true, Section: embedding.OffloadSection})
	b.syclFunctions(binary, i64(image.Content.Len()))
}

// syclFunctions adds the constructor and the destructor.
func (b *builder) syclFunctions(args ...ir.Value) {
	var types []*ir.Type
	for _, arg := range args {
		types = append(types, arg.Type())
	}
	function := func(name, library string) *ir.Function {
		f, code := b.define("sycl.descriptor_" + name)
		code.Call(b.declare("__sycl_"+library+"_lib", ir.Void, types...), args...)
		code.Ret()
		return f
	}
	b.constructor("ctors", 1, function("reg", "register"))
	b.constructor("dtors", 1, function("unreg", "unregister"))
}

// sycl makes the module for SYCL up to LLVM 22.
func (b *builder) sycl(images []register.Image) {
	b.offloadEntry()
	imageType := b.named("__sycl.tgt_device_image", ir.I16, ir.I8, ir.I8, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr, ir.Ptr)
	descriptorType := b.named("__sycl.tgt_bin_desc", ir.I16, ir.I16, ir.Ptr, ir.Ptr, ir.Ptr)
	section := "llvm_offload_entries"
	if b.format == "coff" {
		section += "$OE"
	}
	taken, collisions := map[string]bool{}, 0
	unique := func(name string) string { // as LLVM tells equal names apart
		if taken[name] {
			collisions++
			return fmt.Sprintf("%s.%d", name, collisions)
		}
		taken[name] = true
		return name
	}
	text := func(name, s string) *ir.Global {
		return b.global(ir.Global{Name: name, Init: &ir.Bytes{Content: content.Memory([]byte(s)), Terminated: true}, Linkage: ir.Internal, UnnamedAddr: true, Constant: true})
	}
	named := map[string]*ir.Global{} // the text of a symbol's name
	var texts, records []ir.Value
	i8 := func(v int64) ir.Value { return ir.Int(ir.I8, v) }
	i16 := func(v int64) ir.Value { return ir.Int(ir.I16, v) }
	for i := range images {
		image := &images[i]
		of := func(what string) string { return fmt.Sprintf(".sycl_offloading.%s.%d", what, i) }
		triple, compile, link := text(of("target"), image.Triple), text(of("opts.compile"), ""), text(of("opts.link"), "")
		data := b.global(ir.Global{Name: fmt.Sprintf(".sycl_offloading.%d.data", i), Init: &ir.Bytes{Content: image.Content}, Linkage: ir.Internal, UnnamedAddr: true, Constant: true, Section: embedding.OffloadSection})
		var list []ir.Value
		for _, symbol := range image.Symbols {
			name, known := named[symbol]
			if !known {
				name = text(unique(".offloading.entry_name"), symbol)
				name.Section, name.Align = ".llvm.rodata.offloading", 1
				named[symbol] = name
				texts = append(texts, name)
			}
			entry := ir.Aggregate(b.entry, i64(0), i16(1), i16(8), i32(0), null(), name, i64(0), i64(0), null())
			if !known {
				b.global(ir.Global{Name: ".offloading.entry." + symbol, Init: entry, Linkage: ir.Weak, Constant: true, Section: section, Align: 8})
			}
			list = append(list, entry)
		}
		entries := b.global(ir.Global{Name: unique(".sycl_offloading.entries_arr"), Init: array(b.entry, list...), Linkage: ir.Internal, Constant: true})
		records = append(records, ir.Aggregate(imageType, i16(3), i8(8), i8(int64(image.ImageKind)), triple, compile, link,
			data, b.at(data, image.Content.Len()), entries, b.at(entries, int64(len(list))), null(), null()))
	}
	list := b.global(ir.Global{Name: ".sycl_offloading.device_images", Init: array(imageType, records...), Linkage: ir.Internal, UnnamedAddr: true, Constant: true})
	descriptor := b.global(ir.Global{Name: ".sycl_offloading.descriptor", Linkage: ir.Internal, Constant: true,
		Init: ir.Aggregate(descriptorType, i16(1), i16(int64(len(images))), list, null(), null())})
	b.syclFunctions(descriptor)
	if len(texts) > 0 {
		b.to.Lists = append(b.to.Lists, ir.List{Name: "llvm.offloading.symbols", Values: texts})
	}
}
