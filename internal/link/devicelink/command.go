package devicelink

import (
	"strings"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/llvm/dialect"
)

// ArchName returns the first component of a triple.
func ArchName(triple string) string {
	name, _, _ := strings.Cut(triple, "-")
	return name
}

// isAMD reports whether a triple is for AMD GPUs.
func isAMD(triple string) bool {
	arch := target.ParseTriple(triple).Arch
	return arch == target.ArchAMDGCN || arch == target.ArchR600
}

func isNVPTX(triple string) bool { return strings.HasPrefix(ArchName(triple), "nvptx") }
func isSPIRV(triple string) bool { return strings.HasPrefix(ArchName(triple), "spirv") }

// isCPU reports whether images for the triple are shared libraries of a CPU.
func isCPU(triple string) bool {
	return target.ParseTriple(triple).Arch != target.ArchAMDGCN && !isNVPTX(triple) && !isSPIRV(triple)
}

// LLVMArg is an option of LLVM for device links.
type LLVMArg struct {
	Text string
	// Twice reports that it is an -mllvm option, which is passed to clang as well as to
	// the plugin of the linker.
	Twice bool
}

// Arg is an argument for some device links.
type Arg struct {
	// Triple is the triple of the targets, or their processor (gfx90a), or a target ID
	// (gfx90a:xnack+); empty for all.
	Triple string
	Arg    string
}

// isFor reports whether a is for a link.
func (a Arg) isFor(l *Link) bool {
	return a.Triple == "" || a.Triple == l.Triple || l.Arch != "" && specifies(l.Arch, a.Triple)
}

// CommandOptions are the same for all device links of a host link.
type CommandOptions struct {
	Clang string
	// Output is the output of the host link, as given, from which clang derives the names of
	// other outputs. "" leaves the names to clang.
	Output  string
	Release target.Release // of Clang

	LLVM         []LLVMArg
	SaveTemps    bool
	EmbedBitcode bool
	HostLLD      bool // the host linker is lld
	// Linker and Compiler are the values of --device-linker and --device-compiler.
	Linker, Compiler []string
	// Args are further arguments, at the end.
	Args []Arg
	// Libraries are the libraries and directories of the host link, for CPUs.
	Libraries []string
}

// dumpDir returns the value of -dumpdir for a link: the prefix of the other files that clang
// may write.
func (l *Link) dumpDir(output string) string {
	return output + "." + clean(ArchName(l.Triple)+"."+l.Processor()) + ".img."
}

// Command returns the command line that links files, the images of the link, to output.
func (l *Link) Command(opt *CommandOptions, files []string, output string) []string {
	clang := dialect.Of(opt.Release)
	amd, cpu, processor := isAMD(l.Triple), isCPU(l.Triple), l.Processor()
	args := []string{opt.Clang, "--no-default-config", "-o", output}
	if opt.Output != "" {
		args = append(args, "-dumpdir", l.dumpDir(opt.Output))
	}
	args = append(args, "--target="+l.Triple)
	switch {
	case processor == "":
	case amd:
		args = append(args, "-mcpu="+processor)
	default:
		args = append(args, "-march="+processor)
	}
	if amd && !clang.ClangLTO {
		args = append(args, "-flto")
	}
	for _, arg := range opt.LLVM {
		args = append(args, "-Xlinker", "--plugin-opt="+arg.Text)
	}
	if !isNVPTX(l.Triple) && !isSPIRV(l.Triple) {
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
	if opt.SaveTemps && (amd || isNVPTX(l.Triple) || cpu && opt.HostLLD) {
		args = append(args, "-Wl,--save-temps")
	}
	if opt.EmbedBitcode {
		args = append(args, "-Wl,--lto-emit-llvm")
	}
	if l.Kinds == offloadbinary.SYCL {
		args = append(args, "--sycl-link")
		if !clang.ClangSYCL {
			args = append(args, "-Xlinker", "-triple="+l.Triple, "-Xlinker", "-arch="+processor)
		}
	}
	for _, value := range opt.Linker {
		if arg, ok := forTriple(value, l.Triple, clang.CompatibleTriples); ok {
			args = append(args, "-Xlinker", arg)
		}
	}
	for _, value := range opt.Compiler {
		if arg, ok := forTriple(value, l.Triple, clang.CompatibleTriples); ok {
			args = append(args, arg)
		}
	}
	for _, arg := range opt.Args {
		if arg.isFor(l) {
			args = append(args, arg.Arg)
		}
	}
	return args
}

// forTriple returns the argument in the value of --device-linker or
// --device-compiler, and whether it is for a triple. compatible reports whether it is for all compatible triples.
func forTriple(value, triple string, compatible bool) (string, bool) {
	left, right, _ := strings.Cut(value, "=")
	switch {
	case target.ParseTriple(left).Arch == target.ArchUnknown:
		return value, true
	case right == "":
		return left, true
	}
	return right, left == triple || compatible && target.ParseTriple(left).CompatibleWith(target.ParseTriple(triple))
}
