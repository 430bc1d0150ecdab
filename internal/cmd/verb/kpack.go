package verb

import (
	"cmp"
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/installed/installation"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var kpackListVerb = verb{
	name:    "kpack list",
	operand: " FILE...",
	summary: "Lists the code objects in kpack archives, and the markers of libraries whose code is in such archives.",
	examples: []example{
		{"List an archive", "offload kpack list math_gfx90a.kpack"},
		{"Show where a library looks for its code", "offload kpack list librocrand.so.1"},
	},
	flags: func(flags *flagSet) runner {
		var inputs []string
		flags.inputs(&inputs, "at least one FILE")
		json := flags.Bool("json", false, "print a JSON array with an object for each file; sizes in bytes")
		return func(call *invocation) error {
			list, err := call.Session.KpackList(call.ctx, inputs)
			if err != nil {
				return err
			}
			if *json {
				return listing.JSON(call.Stdout, list)
			}
			for _, file := range list {
				listKpack(call, file)
			}
			return nil
		}
	},
}

// listKpack prints a file for people.
func listKpack(call *invocation, file engine.KpackFile) {
	if h := file.Host; h != nil {
		call.print("%s: library %s, %d wrappers", h.File, h.KernelName, len(h.Wrappers))
		for _, p := range h.SearchPaths {
			call.print("  search path %s", p)
		}
		return
	}
	a := file.Archive
	call.print("%s: group %s, for %v, %s, %d %s", a.File, a.Group, a.Archs, a.Scheme, len(a.Entries), printable.Noun(len(a.Entries), "code object"))
	for _, e := range a.Entries {
		call.print("  %s %s %d bytes", e.Key, e.Arch, e.Size)
	}
}

var kpackExtractVerb = verb{
	name:    "kpack extract",
	operand: " FILE",
	summary: "Extracts code objects from a kpack archive.",
	examples: []example{
		{"Extract one code object", "offload kpack extract --input math_gfx90a.kpack --binary lib/libm.so#0 --arch gfx90a --output m.hsaco"},
		{"Extract all code objects", "offload kpack extract --input math_gfx90a.kpack --output-dir objects"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.KpackExtractOptions
		flags.input(&opt.Input, "the archive, a `file`")
		flags.StringVar(&opt.Binary, "binary", "", "the `key` of the code object: NAME#INDEX")
		flags.StringVar(&opt.Arch, "arch", "", "the target `ID` of the code object")
		flags.StringVar(&opt.Output, "output", "", "the `file` for the code object; - is standard output")
		flags.directory(&opt.OutputDir, "output-dir", "", "the `directory` for all code objects, or for those of --arch")
		return func(call *invocation) error {
			switch {
			case opt.Output == "" && opt.OutputDir == "":
				return usageError("--output or --output-dir is missing")
			case opt.Output != "" && opt.OutputDir != "":
				return usageError("--output cannot be combined with --output-dir")
			case opt.Output != "" && (opt.Binary == "" || opt.Arch == ""):
				return usageError("--output is for one code object: expected --binary and --arch as well")
			}
			written, err := call.Session.KpackExtract(call.ctx, opt)
			if err != nil || opt.OutputDir == "" {
				return err
			}
			for _, name := range written {
				call.print("%s", name)
			}
			return nil
		}
	},
}

var kpackVerifyVerb = verb{
	name:    "kpack verify",
	operand: " FILE...",
	summary: "Verifies kpack archives, and libraries with the archives that have their code.",
	details: "Errors that readers accept are warnings on standard error. With a library and its archives, it checks that each wrapper of the library finds code.",
	examples: []example{
		{"Check an archive", "offload kpack verify math_gfx90a.kpack"},
		{"Check that a library finds its code", "offload kpack verify lib/libm.so .kpack/math_gfx90a.kpack .kpack/math_gfx1100.kpack"},
	},
	flags: func(flags *flagSet) runner {
		var inputs []string
		flags.inputs(&inputs, "at least one FILE")
		return func(call *invocation) error {
			problems, err := call.Session.KpackVerify(call.ctx, inputs)
			for _, p := range problems {
				if p.Warning {
					call.warn("%s: %s", printable.Name(p.File), printable.Text(p.Text))
				}
			}
			return err
		}
	},
}

var kpackSplitVerb = verb{
	name:    "kpack split",
	operand: " FILE, or --tree IN OUT",
	summary: "Splits a library into a library without device code and a kpack archive for each target.",
	details: "The HIP runtime finds the archives through a marker in the library, which has their path relative to the library.",
	examples: []example{
		{"Split a library", "offload kpack split --input librocrand.so.1.1 --output out/lib/librocrand.so.1.1 --kpack-dir out/.kpack --group rocrand"},
		{"Split all libraries of an installation", "offload kpack split --group math --kpack-dir .kpack --tree math split"},
	},
	flags: func(flags *flagSet) runner { return new(kpackSplitFlags).define(flags) },
}

// kpackSplitFlags are the flags of offload kpack split.
type kpackSplitFlags struct {
	opt  engine.KpackSplitOptions
	json bool
	tree bool
}

// define defines the flags and returns what runs the verb.
func (f *kpackSplitFlags) define(flags *flagSet) runner {
	o := &f.opt
	flags.inputFlag(&o.Input, "the library or program, a `file`")
	flags.StringVar(&o.Output, "output", "", "the library without device code, a `file`")
	flags.directory(&o.Dir, "kpack-dir", "", "the `directory` for archives")
	flags.StringVar(&o.Group, "group", "", "the prefix of the `name` of archives, which are NAME_TARGET.kpack")
	flags.StringVar(&o.Name, "kernel-name", "", "the `name` of the library in archives (default: the file name of --output)")
	schemeFlag(flags, &o.Uncompressed)
	levelFlag(flags, &o.Level)
	flags.targets(&o.Archs, "archs", "`A,...`: write archives for these targets only, and drop other code")
	flags.StringVar(&o.SearchPath, "search-path", "", "the `path` of archives relative to the library, with @GFXARCH@ for the target (default: made from --output and --kpack-dir)")
	flags.BoolVar(&o.Append, "append", false, "add the code to existing archives of the group; --tree always does, for those in IN")
	flags.BoolVar(&o.Complete, "complete", false, "also put code for a processor into the archives of its variants if a source has no code for them; older HIP runtimes require it")
	flags.BoolVar(&o.Verify, "verify", false, "check the structure of the output")
	flags.BoolVar(&f.tree, "tree", false, "split the libraries in directory IN into a new directory OUT, instead of --input and --output; --kpack-dir is relative to OUT, .kpack by default")
	flags.BoolVar(&f.json, "json", false, "print a JSON object with the outputs; sizes in bytes")
	return f.run
}

// schemeFlag defines --scheme.
func schemeFlag(flags *flagSet, uncompressed *bool) {
	flags.choice("scheme", "`how` code is stored, zstd or none (default zstd)", []string{"zstd", "none"}, func(s string) { *uncompressed = s == "none" })
}

func (f *kpackSplitFlags) run(call *invocation) error {
	if f.tree {
		return f.runTree(call)
	}
	if err := oneInput(&f.opt.Input, call.operands); err != nil {
		return err
	}
	if err := required("output", f.opt.Output, "kpack-dir", f.opt.Dir, "group", f.opt.Group); err != nil {
		return err
	}
	report, err := call.Session.KpackSplit(call.ctx, f.opt)
	if err != nil {
		return err
	}
	if f.json {
		return listing.JSON(call.Stdout, report)
	}
	for _, w := range report.Warnings {
		call.warn("%s: %s", printable.Name(report.Input), printable.Text(w))
	}
	call.print("%s: %d -> %d bytes", report.Output, report.SizeBefore, report.SizeAfter)
	for _, a := range report.Archives {
		call.print("%s: %d %s, %d bytes", a.File, a.Entries, printable.Noun(a.Entries, "code object"), a.Size)
	}
	return nil
}

// runTree splits the libraries of a directory.
func (f *kpackSplitFlags) runTree(call *invocation) error {
	opt := &f.opt
	if err := treeOperands(call.operands, &opt.Input, &opt.Output); err != nil {
		return err
	}
	switch {
	case opt.Name != "":
		return usageError("--kernel-name is for one library, so it cannot be combined with --tree")
	case opt.SearchPath != "":
		return usageError("--search-path is for one library, so it cannot be combined with --tree")
	}
	opt.Dir = cmp.Or(opt.Dir, ".kpack")
	if err := required("group", opt.Group); err != nil {
		return err
	}
	report, err := installation.SplitTree(call.ctx, call.Session, *opt)
	if err != nil {
		return err
	}
	if f.json {
		return listing.JSON(call.Stdout, report)
	}
	for _, w := range report.Warnings {
		call.warn("%s", printable.Text(w))
	}
	for _, file := range report.Files {
		call.print("%s: %d -> %d bytes", file.Output, file.SizeBefore, file.SizeAfter)
	}
	for _, a := range report.Archives {
		call.print("%s: %d %s, %d bytes", a.File, a.Entries, printable.Noun(a.Entries, "code object"), a.Size)
	}
	line := fmt.Sprintf("%s: %d -> %d bytes in %d %s, %d of them split", report.Output, report.SizeBefore, report.SizeAfter, report.Count, printable.Noun(report.Count, "file"), len(report.Files))
	if report.Unsplit > 0 {
		line += fmt.Sprintf(", %d copied with device code", report.Unsplit)
	}
	call.print("%s", line)
	return nil
}

var kpackMergeVerb = verb{
	name:    "kpack merge",
	operand: " ARCHIVE...",
	summary: "Merges the code in kpack archives back into a split library.",
	examples: []example{
		{"Merge a split library", "offload kpack merge --input lib/libm.so --output fat/libm.so .kpack/math_gfx90a.kpack .kpack/math_gfx1100.kpack"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.KpackMergeOptions
		flags.required(&opt.Input, "input", "the split library, a `file`")
		flags.required(&opt.Output, "output", "the library with its code, a `file`")
		flags.operands(&opt.Archives, "the archives are missing: expected at least one ARCHIVE")
		flags.BoolVar(&opt.Compress, "compress", false, "compress the bundles")
		levelFlag(flags, &opt.Level)
		flags.BoolVar(&opt.Verify, "verify", false, "check the structure of the output")
		return operation(&opt, (*engine.Session).KpackMerge)
	},
}
