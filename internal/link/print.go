package link

import (
	"fmt"

	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/register"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

// print prints a command if printing is enabled.
func (w *linker) print(command []string) {
	if !w.DryRun && !w.Verbose {
		return
	}
	line := ` "` + command[0] + `"`
	for _, arg := range command[1:] {
		line += " " + arg
	}
	fmt.Fprintln(w.Stderr, line)
}

// findToPrint returns the path of an LLVM program that is not run, or its name if it is
// missing.
func (w *linker) findToPrint(name string) string {
	if program, err := w.Find(name); err == nil {
		return program
	}
	return name
}

// printTool prints the command of an LLVM program that is not run.
func (w *linker) printTool(name string, args ...string) {
	w.print(append([]string{w.findToPrint(name)}, args...))
}

// printExtraction prints the commands that would extract the images.
func (w *linker) printExtraction(found *scanned, staged []string) {
	for _, input := range w.Inputs {
		args := []string{input.Name}
		for i, image := range found.images {
			if staged[i] == "" || image.File != input.Name {
				continue
			}
			text := "--image=kind=" + image.Offload + ",triple=" + image.Triple
			if image.Arch != "" {
				text += ",arch=" + image.Arch
			}
			if len(image.Members) > 0 {
				text += ",member=" + image.Member()
			}
			args = append(args, text+",file="+staged[i])
		}
		if len(args) > 1 {
			w.printTool("llvm-offload-binary", args...)
		}
	}
}

// printWrapping prints the commands that would produce a registration object.
func (w *linker) printWrapping(p *packedKind, ir, object string) {
	if p.kind == offloadbinary.OpenMP {
		for i, l := range p.links {
			link := &w.links[l]
			text := fmt.Sprintf("--image=file=%s,kind=openmp,triple=%s", w.linked[l], link.Triple)
			if len(w.Override) == 0 || link.Processor() != "" {
				text += ",arch=" + link.Processor()
			}
			w.printTool("llvm-offload-binary", "-o", p.images[i], text)
		}
	}
	args := []string{"--kind=" + p.kind.String(), "--triple=" + w.HostTriple, "-o", ir}
	if w.Relocatable && p.kind == offloadbinary.OpenMP {
		args = append(args, "--relocatable")
	}
	w.printTool("llvm-offload-wrapper", append(args, p.images...)...)
	w.printTool("clang", "--no-default-config", "--target="+w.HostTriple, "-c", "-fPIC", "-o", object, ir)
}

// printIsolation prints the command that would isolate the output.
func (w *linker) printIsolation(suffix string) {
	args := []string{w.Output, "--remove-section", images.OffloadingSection, "--rename-section", register.EntriesSection + "=" + register.EntriesSection + "_" + suffix}
	for _, bound := range []string{"__start_", "__stop_"} {
		args = append(args, "--redefine-sym", bound+register.EntriesSection+"="+bound+register.EntriesSection+"_"+suffix)
	}
	w.printTool("llvm-objcopy", args...)
}
