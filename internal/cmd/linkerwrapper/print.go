package linkerwrapper

import (
	"fmt"
	"io"
	"strings"

	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/link"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// printer prints the commands of a link as LLVM's tool does, also those of programs that it runs
// and this program does not. It implements link.Observer.
type printer struct {
	opt   *link.Options
	w     io.Writer
	trace *trace // nil for none

	verbose bool
}

// Command prints a command if printing is enabled.
func (p *printer) Command(command []string) {
	if p.opt.DryRun || p.verbose {
		fmt.Fprintln(p.w, strings.Join(append([]string{` "` + command[0] + `"`}, command[1:]...), " "))
	}
}

// printTool prints the command of an LLVM program that is not run.
func (p *printer) printTool(name string, args ...string) {
	if !p.opt.DryRun && !p.verbose {
		return
	}
	program, err := p.opt.Find(name)
	if err != nil {
		program = name
	}
	p.Command(append([]string{program}, args...))
}

// Phase implements link.Observer.
func (p *printer) Phase(name, detail string) (end func()) {
	if p.trace == nil {
		return func() {}
	}
	return p.trace.start(name, detail)
}

// Planned prints which images no link uses.
func (p *printer) Planned(plan *link.Plan) {
	if !p.verbose {
		return
	}
	used := map[int]bool{}
	for l := range plan.Links {
		link := &plan.Links[l]
		for _, i := range link.Images {
			used[i] = true
		}
		if link.Kinds == 0 {
			fmt.Fprintf(p.w, "note: the images for %s have no offload kind: they are linked, but not registered with a runtime\n", link.Name())
		}
	}
	for i, image := range plan.Images {
		if !used[i] {
			fmt.Fprintf(p.w, "note: %s: the image for %s is not linked: no object has that target\n", image.Holder(), strings.TrimSpace(image.Triple+" "+image.Arch))
		}
	}
}

// Staged prints the commands that would extract the images.
func (p *printer) Staged(plan *link.Plan) {
	if !p.opt.SaveTemps || !p.verbose {
		return
	}
	for _, input := range p.opt.Inputs {
		args := []string{input.Name}
		for i, image := range plan.Images {
			if plan.Files[i] == "" || image.File != input.Name {
				continue
			}
			text := "--image=kind=" + image.Offload + ",triple=" + image.Triple
			if image.Arch != "" {
				text += ",arch=" + image.Arch
			}
			if len(image.Members) > 0 {
				text += ",member=" + image.Member()
			}
			args = append(args, text+",file="+plan.Files[i])
		}
		if len(args) > 1 {
			p.printTool("llvm-offload-binary", args...)
		}
	}
}

// Bundled prints the command of clang-offload-bundler that would make a bundle for HIP.
func (p *printer) Bundled(targets, images []string, output string) {
	command := devicelink.BundleCommand("clang-offload-bundler", p.opt.Compress, p.opt.CompressionLevel, targets, images, output)
	p.printTool(command[0], command[1:]...)
}

// Registered prints the commands that would produce a registration object.
func (p *printer) Registered(r *link.Registered) {
	if !p.opt.SaveTemps || !p.verbose {
		return
	}
	form := runtimes.Of(r.Kind).Form
	if form == runtimes.Images {
		for i, link := range r.Links {
			text := fmt.Sprintf("--image=file=%s,kind=%s,triple=%s", link.Output, r.Kind, link.Triple)
			if len(p.opt.Override) == 0 || link.Processor() != "" {
				text += ",arch=" + link.Processor()
			}
			p.printTool("llvm-offload-binary", "-o", r.Images[i], text)
		}
	}
	args := []string{"--kind=" + r.Kind.String(), "--triple=" + p.opt.HostTriple, "-o", r.IR}
	if p.opt.Relocatable && form == runtimes.Images {
		args = append(args, "--relocatable")
	}
	p.printTool("llvm-offload-wrapper", append(args, r.Images...)...)
	p.printTool("clang", "--no-default-config", "--target="+p.opt.HostTriple, "-c", "-fPIC", "-o", r.Object, r.IR)
}

// Isolated prints the command that would isolate the output.
func (p *printer) Isolated(suffix string) {
	args := []string{p.opt.Output, "--remove-section", embedding.OffloadSection, "--rename-section", embedding.EntriesSection + "=" + embedding.EntriesSection + "_" + suffix}
	for _, bound := range []string{"__start_", "__stop_"} {
		args = append(args, "--redefine-sym", bound+embedding.EntriesSection+"="+bound+embedding.EntriesSection+"_"+suffix)
	}
	p.printTool("llvm-objcopy", args...)
}
