// Package devicelink plans and runs the device links of clang-linker-wrapper:
// which images are linked together, by which command, and which of the results
// are registered with which runtime (clang/tools/clang-linker-wrapper of LLVM 22).
//
// Planning is policy alone: it takes the properties of images and returns
// groups and command lines, and reads no file. Run starts the processes.
package devicelink

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

// Image is what planning needs to know of a device image.
type Image struct {
	Triple string
	Arch   string // processor or target ID; "generic" or "" for every processor
	Kind   offloadbinary.OffloadKind
	// Member reports that the image is in an archive that is not linked whole:
	// it joins groups that other images made.
	Member bool
}

// Group is one device link.
type Group struct {
	Triple string
	Arch   string // as the image that made the group has it
	Images []int  // in the order of the link
	Kinds  offloadbinary.OffloadKind
}

// MaxGroups bounds the groups of a link, for inputs made to waste time.
const MaxGroups = 1024

// generic is the arch of images for every processor.
const generic = "generic"

// Groups puts images into groups by target. Objects are taken in the order of
// how many settings their target IDs fix, most first, so that the result does
// not depend on the order of the inputs; a member joins the groups that are
// there, or makes one if extract has its arch. From LLVM 24 on, by release, code that leaves a
// setting open is not linked with objects for certain settings, and triples may
// be different names of a target.
func Groups(images []Image, extract []string, release int) ([]Group, error) {
	takes, shares := (*Group).takes, (*Group).shares
	if release >= firstSame {
		takes, shares = (*Group).same, (*Group).uses
	}
	var groups []Group
	add := func(g *Group, i int) {
		g.Images = append(g.Images, i)
		g.Kinds |= images[i].Kind
	}
	create := func(i int) error {
		if len(groups) == MaxGroups {
			return fmt.Errorf("more than %d targets", MaxGroups)
		}
		groups = append(groups, Group{Triple: images[i].Triple, Arch: images[i].Arch})
		add(&groups[len(groups)-1], i)
		return nil
	}
	var objects, members []int
	for i := range images {
		if images[i].Member {
			members = append(members, i)
		} else {
			objects = append(objects, i)
		}
	}
	slices.SortStableFunc(objects, func(a, b int) int {
		return strings.Count(images[b].Arch, ":") - strings.Count(images[a].Arch, ":")
	})
	for _, i := range objects {
		joined := false
		for g := range groups {
			if takes(&groups[g], &images[i]) {
				add(&groups[g], i)
				joined = true
			}
		}
		if !joined {
			if err := create(i); err != nil {
				return nil, err
			}
		}
	}
	for g := range groups {
		slices.Sort(groups[g].Images)
	}
	for _, i := range members {
		image, own := &images[i], false
		for g := range groups {
			same := groups[g].Triple == image.Triple && groups[g].Arch == image.Arch
			own = own || same
			if same || shares(&groups[g], image) {
				add(&groups[g], i)
			}
		}
		if !own && slices.Contains(extract, image.Arch) {
			if err := create(i); err != nil {
				return nil, err
			}
		}
	}
	return groups, nil
}

// takes reports whether an object's image can go into the image of the group:
// code that leaves a setting open can, code that fixes one the group leaves open
// cannot.
func (g *Group) takes(image *Image) bool {
	if g.Triple != image.Triple {
		return false
	}
	if g.Arch == image.Arch {
		return true
	}
	if !amdgpu(g.Triple) {
		return false
	}
	own, other := strings.Split(g.Arch, ":"), strings.Split(image.Arch, ":")
	if own[0] != other[0] {
		return false
	}
	for _, setting := range other[1:] {
		if !slices.Contains(own[1:], setting) {
			return false
		}
	}
	return true
}

// shares reports whether a member's image, of another target than the group,
// may be linked with it.
func (g *Group) shares(image *Image) bool {
	return g.device().LinksWith(image.device())
}

func (g *Group) device() target.Device { return target.Device{Triple: g.Triple, Arch: g.Arch} }

func (i *Image) device() target.Device { return target.Device{Triple: i.Triple, Arch: i.Arch} }

// same reports whether an object's image is for the target of the group.
func (g *Group) same(image *Image) bool { return g.device().Same(image.device()) }

// uses reports whether a member's image can serve the target of the group.
func (g *Group) uses(image *Image) bool { return image.device().Provides(g.device()) }

// Processor returns the arch of a group, "" for every processor.
func (g *Group) Processor() string {
	if g.Arch == generic {
		return ""
	}
	return g.Arch
}

// Name names the target of a group in messages.
func (g *Group) Name() string {
	return strings.TrimSpace(g.Triple + " " + g.Processor())
}

// ArchName returns the first component of a triple.
func ArchName(triple string) string {
	name, _, _ := strings.Cut(triple, "-")
	return name
}

func amdgpu(triple string) bool {
	arch := target.ParseTriple(triple).Arch
	return arch == target.ArchAMDGCN || arch == target.ArchR600
}

func isNVPTX(triple string) bool { return strings.HasPrefix(ArchName(triple), "nvptx") }
func isSPIRV(triple string) bool { return strings.HasPrefix(ArchName(triple), "spirv") }

// isCPU reports whether images for the triple are shared libraries of a CPU.
func isCPU(triple string) bool {
	return target.ParseTriple(triple).Arch != target.ArchAMDGCN && !isNVPTX(triple) && !isSPIRV(triple)
}

// linkable are the architectures that device links are made for.
var linkable = []target.Arch{
	"nvptx", "nvptx64", target.ArchAMDGCN, "x86", "x86_64", "aarch64", "aarch64_be", "ppc64", "ppc64le", "spirv64", "systemz", "loongarch64",
}

// ErrMixedSYCL is returned by Group.Check for images of SYCL and of another
// offload kind in one group.
var ErrMixedSYCL = errors.New("images of SYCL cannot be linked with images of another offload kind")

// Check reports why a group cannot be linked.
func (g *Group) Check() error {
	if g.Kinds&offloadbinary.SYCL != 0 && g.Kinds != offloadbinary.SYCL {
		return ErrMixedSYCL
	}
	if slices.Contains(linkable, target.ParseTriple(g.Triple).Arch) {
		return nil
	}
	return fmt.Errorf("%s linking is not supported", ArchName(g.Triple))
}

// LLVMArg is an option of LLVM for device links.
type LLVMArg struct {
	Text string
	// Twice reports that it came as -mllvm, which clang is given as well as the
	// plugin of the linker.
	Twice bool
}

// Options are the same for all device links of a command.
type Options struct {
	Clang   string
	Output  string // of the host link, as given
	Release int    // of LLVM: up to 22, AMD GPUs are linked with -flto

	LLVM         []LLVMArg
	SaveTemps    bool
	EmbedBitcode bool
	HostLLD      bool // the host linker is lld
	// Linker and Compiler are the values of --device-linker and --device-compiler.
	Linker, Compiler []string
	// Libraries are the libraries and directories of the host link.
	Libraries []string
}

// DumpDir returns the value of -dumpdir for a group: where clang puts the other
// files that it may make.
func (g *Group) DumpDir(output string) string {
	return output + "." + clean(ArchName(g.Triple)+"."+g.Processor()) + ".img."
}

// Command returns the command line that links files, the images of the group,
// to output.
func (g *Group) Command(opt *Options, files []string, output string) []string {
	amd, cpu, processor := amdgpu(g.Triple), isCPU(g.Triple), g.Processor()
	args := []string{opt.Clang, "--no-default-config", "-o", output, "-dumpdir", g.DumpDir(opt.Output), "--target=" + g.Triple}
	switch {
	case processor == "":
	case amd:
		args = append(args, "-mcpu="+processor)
	default:
		args = append(args, "-march="+processor)
	}
	if amd && opt.Release <= lastLTO {
		args = append(args, "-flto")
	}
	for _, arg := range opt.LLVM {
		args = append(args, "-Xlinker", "--plugin-opt="+arg.Text)
	}
	if !isNVPTX(g.Triple) && !isSPIRV(g.Triple) {
		args = append(args, "-Wl,--no-undefined")
	}
	args = append(args, files...)
	if cpu {
		args = append(append(args, "-Wl,-Bsymbolic", "-shared"), opt.Libraries...)
	}
	for _, arg := range opt.LLVM {
		if arg.Twice {
			args = append(args, "-Xlinker", "-mllvm="+arg.Text)
		}
	}
	if opt.SaveTemps && (amd || isNVPTX(g.Triple) || cpu && opt.HostLLD) {
		args = append(args, "-Wl,--save-temps")
	}
	if opt.EmbedBitcode {
		args = append(args, "-Wl,--lto-emit-llvm")
	}
	if g.Kinds == offloadbinary.SYCL {
		args = append(args, "--sycl-link")
		if opt.Release < firstSame { // clang passes them on itself from then on
			args = append(args, "-Xlinker", "-triple="+g.Triple, "-Xlinker", "-arch="+processor)
		}
	}
	for _, value := range opt.Linker {
		if arg, ok := forTriple(value, g.Triple, opt.Release); ok {
			args = append(args, "-Xlinker", arg)
		}
	}
	for _, value := range opt.Compiler {
		if arg, ok := forTriple(value, g.Triple, opt.Release); ok {
			args = append(args, arg)
		}
	}
	return args
}

// lastLTO is the last release whose clang-linker-wrapper asks for LTO itself.
const lastLTO = 22

// firstSame is the first release that compares targets, not the text of triples.
const firstSame = 24

// forTriple returns the argument in the value of --device-linker or
// --device-compiler, and whether it is for a triple.
func forTriple(value, triple string, release int) (string, bool) {
	left, right, _ := strings.Cut(value, "=")
	switch {
	case target.ParseTriple(left).Arch == target.ArchUnknown:
		return value, true
	case right == "":
		return left, true
	}
	compatible := release >= firstSame && target.ParseTriple(left).CompatibleWith(target.ParseTriple(triple))
	return right, left == triple || compatible
}

// Kinds returns the offload kinds of the groups in the order in which they first
// appear; in a group the order is that of kindOrder.
func Kinds(groups []Group) []offloadbinary.OffloadKind {
	var kinds []offloadbinary.OffloadKind
	for i := range groups {
		for _, kind := range kindOrder {
			if groups[i].Kinds&kind != 0 && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

var kindOrder = []offloadbinary.OffloadKind{offloadbinary.OpenMP, offloadbinary.CUDA, offloadbinary.HIP, offloadbinary.SYCL}

// Of returns the groups whose images are registered for a kind, in the order in
// which they are packed: by triple, then by arch, both descending.
func Of(groups []Group, kind offloadbinary.OffloadKind) []int {
	var list []int
	for i := range groups {
		if groups[i].Kinds&kind != 0 {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		if c := strings.Compare(groups[b].Triple, groups[a].Triple); c != 0 {
			return c
		}
		return strings.Compare(groups[b].Processor(), groups[a].Processor())
	})
	return list
}

// hostEntry is the first entry of a bundle for HIP, whatever the host is: the
// runtime looks for no other, and clang-offload-bundler 22 refuses some others.
const hostEntry = "host-x86_64-unknown-linux-gnu"

// HIPTargets returns the entry IDs of a bundle of linked images, that of the
// empty host entry first. They name AMD's architecture as every release of the
// runtime reads it.
func HIPTargets(groups []Group, list []int) []string {
	ids := []string{hostEntry}
	for _, i := range list {
		arch := groups[i].Processor()
		if arch == "amdgcnspirv" {
			ids = append(ids, "hip-spirv64-amd-amdhsa--"+arch)
		} else {
			ids = append(ids, "hip-amdgcn-amd-amdhsa--"+arch)
		}
	}
	return ids
}

// BundleCommand returns the command of clang-offload-bundler that makes a bundle
// for HIP of linked images.
func BundleCommand(bundler string, compress bool, level string, targets, images []string, output string) []string {
	args := []string{bundler, "-type=o", "-bundle-align=4096"}
	if compress {
		args = append(args, "-compress")
	}
	if level != "" {
		args = append(args, "-compression-level="+level)
	}
	args = append(args, "-targets="+strings.Join(targets, ","), "-input=/dev/null")
	for _, image := range images {
		args = append(args, "-input="+image)
	}
	return append(args, "-output="+output)
}

// FatbinaryCommand returns the command of NVIDIA's fatbinary that packs linked
// images for CUDA.
func FatbinaryCommand(fatbinary, hostTriple string, archs, images []string, output string) []string {
	bits := "-64"
	if narrow(hostTriple) {
		bits = "-32"
	}
	args := []string{fatbinary, bits, "--create", output}
	for i, image := range images {
		args = append(args, fmt.Sprintf("--image3=kind=elf,sm=%s,file=%s", archs[i][min(3, len(archs[i])):], image))
	}
	return args
}

// narrow reports whether pointers of a host have 32 bits.
func narrow(triple string) bool {
	switch target.ParseTriple(triple).Arch {
	case "x86", "arm", "armeb", "thumb", "thumbeb", "ppc", "ppcle", "mips", "mipsel", "riscv32", "riscv32be", "sparc", "sparcel", "loongarch32":
		return true
	}
	return false
}

// Names gives out the names of files of one command: each once.
type Names struct {
	// Dir is where the files are.
	Dir string
	// Plain leaves out what tells names of other commands apart, for files that
	// are kept.
	Plain bool

	given map[string]int
}

// File returns the path of a new file whose name begins with prefix and ends
// with suffix. Separators of directories in them become underscores.
func (n *Names) File(prefix, suffix string) string {
	if n.given == nil {
		n.given = map[string]int{}
	}
	prefix = clean(prefix)
	const longest = 180
	prefix = prefix[:min(len(prefix), longest)]
	again := n.given[prefix+suffix]
	n.given[prefix+suffix]++
	switch {
	case n.Plain && again == 0:
	case n.Plain:
		prefix = fmt.Sprintf("%s-%d", prefix, again)
	default:
		prefix = fmt.Sprintf("%s-%06x", prefix, again)
	}
	return filepath.Join(n.Dir, prefix+suffix)
}

// clean returns s as a part of a file name.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, s)
}
