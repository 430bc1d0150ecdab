// Package registerir writes the registration of device images as LLVM IR, in its
// textual form: the module that llvm-offload-wrapper makes, for steps that read
// IR, and for hosts that package register has no code for
// (llvm/lib/Frontend/Offloading/OffloadWrapper.cpp of LLVM 22).
package registerir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/register"
	"github.com/rules-offload/rules_offload/engine/target"
)

// Module is the module of one registration.
type Module struct {
	// Triple is the host's.
	Triple string
	// Registration says what is registered. An image of no bytes is allowed.
	Registration register.Registration
	// Relocatable keeps OpenMP's images from later device links.
	Relocatable bool
	// PageAligned aligns the images of HIP as its runtime reads them, which LLVM
	// omits.
	PageAligned bool
}

// Write writes the module. Images are encoded piece by piece.
func (m *Module) Write(w io.Writer) error {
	p := &printer{w: bufio.NewWriterSize(w, 64<<10), Module: m, format: string(target.ParseTriple(target.Normalize(m.Triple, 4)).Format)}
	p.startup = ".text.startup"
	p.start, p.stop = "@__start_llvm_offload_entries", "@__stop_llvm_offload_entries"
	if p.format == "macho" {
		p.startup = "__TEXT,__StaticInit"
		p.start, p.stop = `@"\01section$start$__LLVM$offload_entries"`, `@"\01section$end$__LLVM$offload_entries"`
	}
	if strings.ContainsAny(m.Triple, "\"\\\n") {
		return fmt.Errorf("triple %q: expected letters, digits and dashes", m.Triple)
	}
	p.printf("; ModuleID = 'offload.wrapper.module'\nsource_filename = \"offload.wrapper.module\"\ntarget triple = \"%s\"\n\n", m.Triple)
	p.printf("%%struct.__tgt_offload_entry = type { i64, i16, i16, i32, ptr, ptr, i64, i64, ptr }\n")
	r := &m.Registration
	switch {
	case r.Kind == register.OpenMP:
		p.openMP(r.Images)
	case r.Kind == register.SYCL && r.Package && len(r.Images) == 1:
		p.syclPackage(r.Images[0].Content)
	case r.Kind == register.SYCL && !r.Package:
		p.sycl(r.Images)
	case (r.Kind == register.HIP || r.Kind == register.CUDA) && len(r.Images) == 1:
		p.fatBinary(r.Kind, r.Images[0].Content)
	default:
		return errors.New("expected one image")
	}
	return p.w.Flush()
}

type printer struct {
	*Module
	w           *bufio.Writer // keeps the first error
	format      string
	startup     string // section of constructors
	start, stop string // of the offload entries
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

// array writes an array of bytes with its type.
func (p *printer) array(c files.Content, terminated bool) {
	data := c.Bytes()
	size, zero := len(data), true
	for _, b := range data {
		if zero = b == 0; !zero {
			break
		}
	}
	if terminated {
		size++
	}
	p.printf("[%d x i8] ", size)
	if zero {
		p.printf("zeroinitializer")
		return
	}
	p.w.WriteString(`c"`)
	const digits = "0123456789ABCDEF"
	for _, b := range data {
		if b >= ' ' && b < 0x7f && b != '"' && b != '\\' {
			p.w.WriteByte(b)
		} else {
			if b == '\\' {
				p.w.WriteString(`\\`)
				continue
			}
			p.w.Write([]byte{'\\', digits[b>>4], digits[b&15]})
		}
	}
	if terminated {
		p.w.WriteString(`\00`)
	}
	p.w.WriteByte('"')
}

func (p *printer) text(s string) { p.array(files.Memory([]byte(s)), true) }

// entryType is that of an array of n offload entries.
func entryType(n int) string { return fmt.Sprintf("[%d x %%struct.__tgt_offload_entry]", n) }

// bounds writes where the offload entries start and stop.
func (p *printer) bounds() {
	none := entryType(0)
	switch p.format {
	case "coff":
		p.printf("%s = weak_odr hidden constant %s zeroinitializer, section \"llvm_offload_entries$OA\"\n", p.start, none)
		p.printf("%s = weak_odr hidden constant %s zeroinitializer, section \"llvm_offload_entries$OZ\"\n", p.stop, none)
	case "macho":
		p.printf("%s = external hidden constant %s\n%s = external hidden constant %s\n", p.start, none, p.stop, none)
	default:
		p.printf("%s = external hidden constant %s\n%s = external hidden constant %s\n", p.start, none, p.stop, none)
		p.printf("@__dummy.llvm_offload_entries = internal constant %s zeroinitializer, section \"llvm_offload_entries\", align 8\n", none)
		p.printf("@llvm.compiler.used = appending global [1 x ptr] [ptr @__dummy.llvm_offload_entries], section \"llvm.metadata\"\n")
	}
}

// at writes a pointer into an array of n elements of a type.
func at(name, element string, n, offset int64) string {
	if offset == 0 {
		return "ptr " + name
	}
	return fmt.Sprintf("ptr getelementptr ([%d x %s], ptr %s, i64 0, i64 %d)", n, element, name, offset)
}

// openMP writes the module for OpenMP.
func (p *printer) openMP(images []register.Image) {
	p.printf("%%__tgt_device_image = type { ptr, ptr, ptr, ptr }\n%%__tgt_bin_desc = type { i32, ptr, ptr, ptr }\n\n")
	p.bounds()
	section := ".llvm.offloading"
	if p.Relocatable {
		section += ".relocatable"
	}
	if p.format == "macho" {
		section = "__LLVM,__offloading"
	}
	type device struct {
		name         string
		size         int64
		start, limit int64
	}
	var devices []device
	for i := range images {
		name := "@.omp_offloading.device_image"
		if i > 0 {
			name = fmt.Sprintf("%s.%d", name, i)
		}
		c := images[i].Content
		p.printf("%s = internal unnamed_addr constant ", name)
		p.array(c, false)
		p.printf(", section \"%s\", align 8\n", section)
		ranges := images[i].Devices
		if ranges == nil {
			ranges = []register.Range{{Offset: 0, Size: c.Len()}}
		}
		for _, r := range ranges {
			devices = append(devices, device{name, c.Len(), r.Offset, r.Offset + r.Size})
		}
	}
	p.printf("@.omp_offloading.device_images = internal unnamed_addr constant [%d x %%__tgt_device_image] [", len(devices))
	for i, d := range devices {
		if i > 0 {
			p.printf(", ")
		}
		p.printf("%%__tgt_device_image { %s, %s, ptr %s, ptr %s }", at(d.name, "i8", d.size, d.start), at(d.name, "i8", d.size, d.limit), p.start, p.stop)
	}
	p.printf("]\n@.omp_offloading.descriptor = internal constant %%__tgt_bin_desc { i32 %d, ptr @.omp_offloading.device_images, ptr %s, ptr %s }\n", len(devices), p.start, p.stop)
	p.constructor("ctors", 101, ".omp_offloading.descriptor_reg")
	p.printf(`
define internal void @.omp_offloading.descriptor_reg() section "%[1]s" {
entry:
  call void @__tgt_register_lib(ptr @.omp_offloading.descriptor)
  %%0 = call i32 @atexit(ptr @.omp_offloading.descriptor_unreg)
  ret void
}

declare void @__tgt_register_lib(ptr)

declare i32 @atexit(ptr)

define internal void @.omp_offloading.descriptor_unreg() section "%[1]s" {
entry:
  call void @__tgt_unregister_lib(ptr @.omp_offloading.descriptor)
  ret void
}

declare void @__tgt_unregister_lib(ptr)
`, p.startup)
}

// constructor writes the table of constructors, or of destructors.
func (p *printer) constructor(table string, priority int, function string) {
	p.printf("@llvm.global_%s = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 %d, ptr @%s, ptr null }]\n", table, priority, function)
}

// names are those of HIP and CUDA.
type names struct {
	image, wrapper string
	magic, kind    uint32
}

var fatBinaries = map[register.Kind]names{
	register.HIP:  {".hip_fatbin", ".hipFatBinSegment", 0x48495046, 4},
	register.CUDA: {".nv_fatbin", ".nvFatBinSegment", 0x466243b1, 2},
}

var machOFatBinaries = map[register.Kind]names{
	register.HIP:  {"__HIP,__hip_fatbin", "__HIP,__fatbin", 0x48495046, 4},
	register.CUDA: {"__NV_CUDA,__nv_fatbin", "__NV_CUDA,__fatbin", 0x466243b1, 2},
}

// fatBinary writes the module for HIP or CUDA.
func (p *printer) fatBinary(kind register.Kind, c files.Content) {
	n := fatBinaries[kind]
	if p.format == "macho" {
		n = machOFatBinaries[kind]
	}
	p.printf("%%fatbin_wrapper = type { i32, i32, ptr, ptr }\n\n")
	p.bounds()
	p.printf("@.fatbin_image = internal constant ")
	p.array(c, false)
	p.printf(", section \"%s\"", n.image)
	if kind == register.HIP && p.PageAligned {
		p.printf(", align 4096")
	}
	p.printf("\n@.fatbin_wrapper = internal constant %%fatbin_wrapper { i32 %d, i32 1, ptr @.fatbin_image, ptr null }, section \"%s\", align 8\n", n.magic, n.wrapper)
	p.printf("@.%s.binary_handle = internal global ptr null\n", kind)
	p.constructor("ctors", 101, "."+kind.String()+".fatbin_reg")
	end, surface, texture := "", "", ""
	if kind == register.CUDA {
		end = "  call void @__cudaRegisterFatBinaryEnd(ptr %0)\n"
	} else {
		surface = "  call void @__hipRegisterSurface(ptr %0, ptr %addr, ptr %name, ptr %name, i32 %9, i32 %extern)\n"
		texture = "  call void @__hipRegisterTexture(ptr %0, ptr %addr, ptr %name, ptr %name, i32 %9, i32 %normalized, i32 %extern)\n"
	}
	p.w.WriteString(strings.NewReplacer(
		"RUNTIME", kind.String(), "KIND", fmt.Sprint(n.kind), "STARTUP", p.startup, "START", p.start, "STOP", p.stop,
		"END\n", end, "SURFACE\n", surface, "TEXTURE\n", texture,
	).Replace(fatBinaryCode))
}

// fatBinaryCode has the functions of HIP and CUDA; words in capitals differ.
const fatBinaryCode = `
define internal void @.RUNTIME.fatbin_reg() section "STARTUP" {
entry:
  %0 = call ptr @__RUNTIMERegisterFatBinary(ptr @.fatbin_wrapper)
  store ptr %0, ptr @.RUNTIME.binary_handle, align 8
  call void @.RUNTIME.globals_reg(ptr %0)
END
  %1 = call i32 @atexit(ptr @.RUNTIME.fatbin_unreg)
  ret void
}

define internal void @.RUNTIME.fatbin_unreg() section "STARTUP" {
entry:
  %0 = load ptr, ptr @.RUNTIME.binary_handle, align 8
  call void @__RUNTIMEUnregisterFatBinary(ptr %0)
  ret void
}

declare ptr @__RUNTIMERegisterFatBinary(ptr)

declare void @__cudaRegisterFatBinaryEnd(ptr)

declare void @__RUNTIMEUnregisterFatBinary(ptr)

declare i32 @atexit(ptr)

declare i32 @__RUNTIMERegisterFunction(ptr, ptr, ptr, ptr, i32, ptr, ptr, ptr, ptr, ptr)

declare void @__RUNTIMERegisterVar(ptr, ptr, ptr, ptr, i32, i64, i32, i32)

declare void @__RUNTIMERegisterManagedVar(ptr, ptr, ptr, ptr, i64, i32)

declare void @__RUNTIMERegisterSurface(ptr, ptr, ptr, ptr, i32, i32)

declare void @__RUNTIMERegisterTexture(ptr, ptr, ptr, ptr, i32, i32, i32)

define internal void @.RUNTIME.globals_reg(ptr %0) section "STARTUP" {
entry:
  %1 = icmp ne ptr START, STOP
  br i1 %1, label %while.entry, label %while.end

while.entry:                                      ; preds = %if.end, %entry
  %entry1 = phi ptr [ START, %entry ], [ %16, %if.end ]
  %2 = getelementptr inbounds %struct.__tgt_offload_entry, ptr %entry1, i32 0, i32 4
  %addr = load ptr, ptr %2, align 8
  %3 = getelementptr inbounds %struct.__tgt_offload_entry, ptr %entry1, i32 0, i32 8
  %aux_addr = load ptr, ptr %3, align 8
  %4 = getelementptr inbounds %struct.__tgt_offload_entry, ptr %entry1, i32 0, i32 2
  %kind = load i16, ptr %4, align 2
  %5 = getelementptr inbounds %struct.__tgt_offload_entry, ptr %entry1, i32 0, i32 5
  %name = load ptr, ptr %5, align 8
  %6 = getelementptr inbounds %struct.__tgt_offload_entry, ptr %entry1, i32 0, i32 6
  %size = load i64, ptr %6, align 4
  %7 = getelementptr inbounds %struct.__tgt_offload_entry, ptr %entry1, i32 0, i32 3
  %flags = load i32, ptr %7, align 4
  %8 = getelementptr inbounds %struct.__tgt_offload_entry, ptr %entry1, i32 0, i32 7
  %data = load i64, ptr %8, align 4
  %9 = trunc i64 %data to i32
  %type = and i32 %flags, 7
  %10 = and i32 %flags, 8
  %extern = lshr i32 %10, 3
  %11 = and i32 %flags, 16
  %constant = lshr i32 %11, 4
  %12 = and i32 %flags, 32
  %normalized = lshr i32 %12, 5
  %13 = icmp eq i16 %kind, KIND
  br i1 %13, label %if.kind, label %if.end

if.kind:                                          ; preds = %while.entry
  %14 = icmp eq i64 %size, 0
  br i1 %14, label %if.then, label %if.else

if.then:                                          ; preds = %if.kind
  %15 = call i32 @__RUNTIMERegisterFunction(ptr %0, ptr %addr, ptr %name, ptr %name, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  br label %if.end

if.else:                                          ; preds = %if.kind
  switch i32 %type, label %if.end [
    i32 0, label %sw.global
    i32 1, label %sw.managed
    i32 2, label %sw.surface
    i32 3, label %sw.texture
  ]

sw.global:                                        ; preds = %if.else
  call void @__RUNTIMERegisterVar(ptr %0, ptr %addr, ptr %name, ptr %name, i32 %extern, i64 %size, i32 %constant, i32 0)
  br label %if.end

sw.managed:                                       ; preds = %if.else
  call void @__RUNTIMERegisterManagedVar(ptr %0, ptr %aux_addr, ptr %addr, ptr %name, i64 %size, i32 %9)
  br label %if.end

sw.surface:                                       ; preds = %if.else
SURFACE
  br label %if.end

sw.texture:                                       ; preds = %if.else
TEXTURE
  br label %if.end

if.end:                                           ; preds = %sw.texture, %sw.surface, %sw.managed, %sw.global, %if.else, %if.then, %while.entry
  %16 = getelementptr inbounds %struct.__tgt_offload_entry, ptr %entry1, i64 1
  %17 = icmp eq ptr %16, STOP
  br i1 %17, label %while.end, label %while.entry

while.end:                                        ; preds = %if.end, %entry
  ret void
}
`

// syclPackage writes the module for SYCL from LLVM 23 on.
func (p *printer) syclPackage(c files.Content) {
	p.printf("\n@.sycl_offloading.binary = internal unnamed_addr constant ")
	p.array(c, false)
	p.printf(", section \".llvm.offloading\", align 8\n")
	p.syclFunctions(fmt.Sprintf("ptr @.sycl_offloading.binary, i64 %d", c.Len()), "ptr, i64")
}

// syclFunctions writes the constructor and the destructor.
func (p *printer) syclFunctions(args, types string) {
	p.constructor("ctors", 1, "sycl.descriptor_reg")
	p.constructor("dtors", 1, "sycl.descriptor_unreg")
	for i, function := range []string{"register", "unregister"} {
		p.printf("\ndefine internal void @sycl.descriptor_%s() section \"%s\" {\nentry:\n  call void @__sycl_%s_lib(%s)\n  ret void\n}\n", [...]string{"reg", "unreg"}[i], p.startup, function, args)
		p.printf("\ndeclare void @__sycl_%s_lib(%s)\n", function, types)
	}
}

// sycl writes the module for SYCL up to LLVM 22.
func (p *printer) sycl(images []register.Image) {
	p.printf("%%__sycl.tgt_device_image = type { i16, i8, i8, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }\n%%__sycl.tgt_bin_desc = type { i16, i16, ptr, ptr, ptr }\n\n")
	entries := "llvm_offload_entries"
	if p.format == "coff" {
		entries += "$OE"
	}
	named := map[string]string{} // the text of a symbol's name
	taken, collisions := map[string]bool{}, 0
	unique := func(name string) string { // as LLVM tells equal names apart
		if taken[name] {
			collisions++
			return fmt.Sprintf("%s.%d", name, collisions)
		}
		taken[name] = true
		return name
	}
	var texts, records []string
	for i := range images {
		image := &images[i]
		p.printf("@.sycl_offloading.target.%d = internal unnamed_addr constant ", i)
		p.text(image.Triple)
		p.printf("\n@.sycl_offloading.opts.compile.%d = internal unnamed_addr constant [1 x i8] zeroinitializer\n", i)
		p.printf("@.sycl_offloading.opts.link.%d = internal unnamed_addr constant [1 x i8] zeroinitializer\n", i)
		p.printf("@.sycl_offloading.%d.data = internal unnamed_addr constant ", i)
		p.array(image.Content, false)
		p.printf(", section \".llvm.offloading\"\n")
		var list []string
		for _, symbol := range image.Symbols {
			text, known := named[symbol]
			if !known {
				text = unique("@.offloading.entry_name")
				named[symbol] = text
				texts = append(texts, text)
				p.printf("%s = internal unnamed_addr constant ", text)
				p.text(symbol)
				p.printf(", section \".llvm.rodata.offloading\", align 1\n")
			}
			entry := fmt.Sprintf("%%struct.__tgt_offload_entry { i64 0, i16 1, i16 8, i32 0, ptr null, ptr %s, i64 0, i64 0, ptr null }", text)
			if !known {
				p.printf("%s = weak constant %s, section \"%s\", align 8\n", global(".offloading.entry."+symbol), entry, entries)
			}
			list = append(list, entry)
		}
		array := unique("@.sycl_offloading.entries_arr")
		p.printf("%s = internal constant %s ", array, entryType(len(list)))
		if len(list) == 0 {
			p.printf("zeroinitializer\n")
		} else {
			p.printf("[%s]\n", strings.Join(list, ", "))
		}
		data := fmt.Sprintf("@.sycl_offloading.%d.data", i)
		records = append(records, fmt.Sprintf("%%__sycl.tgt_device_image { i16 3, i8 8, i8 %d, ptr @.sycl_offloading.target.%d, ptr @.sycl_offloading.opts.compile.%d, ptr @.sycl_offloading.opts.link.%d, ptr %s, %s, ptr %s, %s, ptr null, ptr null }",
			image.ImageKind, i, i, i, data, at(data, "i8", image.Content.Len(), image.Content.Len()), array,
			at(array, "%struct.__tgt_offload_entry", int64(len(list)), int64(len(list)))))
	}
	p.printf("@.sycl_offloading.device_images = internal unnamed_addr constant [%d x %%__sycl.tgt_device_image] [%s]\n", len(images), strings.Join(records, ", "))
	p.printf("@.sycl_offloading.descriptor = internal constant %%__sycl.tgt_bin_desc { i16 1, i16 %d, ptr @.sycl_offloading.device_images, ptr null, ptr null }\n", len(images))
	p.syclFunctions("ptr @.sycl_offloading.descriptor", "ptr")
	if len(texts) == 0 {
		return
	}
	p.printf("\n!llvm.offloading.symbols = !{")
	for i := range texts {
		if i > 0 {
			p.printf(", ")
		}
		p.printf("!%d", i)
	}
	p.printf("}\n\n")
	for i, text := range texts {
		p.printf("!%d = !{ptr %s}\n", i, text)
	}
}

// global returns the name of a global, in quotes if it has to be.
func global(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-$._", r)
	}
	if strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return "@" + name
	}
	var b strings.Builder
	b.WriteString(`@"`)
	for i := range len(name) {
		if c := name[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
