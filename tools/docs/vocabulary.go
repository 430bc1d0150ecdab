package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// word is an attribute that rules have, with the same meaning in all of them.
type word struct {
	name    string
	kinds   string // names of attributeTypes, separated by ", "
	meaning string
}

// vocabulary has the attributes of all rules for device code.
var vocabulary = []word{
	{"accepted", "label", "A file with differences that do not fail the test."},
	{"additional_compiler_inputs", "list of labels", "Files that compiler flags refer to."},
	{"additional_linker_inputs", "list of labels", "Files that linker flags refer to."},
	{"alignment", "int", "Alignment in bytes."},
	{"allow_missing", "bool", "Whether an architecture without code is no error."},
	{"alwayslink", "bool", "As in `cc_library`."},
	{"arch_copts", "dict of string to list of strings", "Compiler flags for some architectures."},
	{"arch_linkopts", "dict of string to list of strings", "Linker flags for the device code of some architectures."},
	{"arch_srcs", "dict of string to list of strings", "Which sources are for some architectures."},
	{"archive", "bool", "Whether the outputs are archives."},
	{"base", "list of labels", "Older files to compare with."},
	{"binary_version", "int", "Version of the format of offload binaries; also a setting."},
	{"bundle", "label", "The bundle that the rule reads, a target or a file."},
	{"bundle_version", "int", "Version of the format of compressed bundles; also a setting."},
	{"bundles", "list of labels", "The bundles that the rule reads, targets or files."},
	{"c_as_hip", "bool", "Whether sources of C are HIP."},
	{"complete", "bool", "Whether archives of code also have compatible code of others."},
	{"compress", "string", "Compression: `zstd`, `none`, and what the rule adds to these; also a setting."},
	{"compression_level", "string", "`fast` or `small`; also a setting."},
	{"conlyopts", "list of strings", "As in `cc_library`."},
	{"copts", "list of strings", "Compiler flags, for host and device code."},
	{"covers", "list of strings", "Architectures that all files must have code for."},
	{"cxxopts", "list of strings", "As in `cc_library`."},
	{"data", "list of labels", "As in `cc_library`."},
	{"defines", "list of strings", "As in `cc_library`."},
	{"deps", "list of labels", "C++ libraries, as in `cc_library`."},
	{"device_copts", "list of strings", "Compiler flags for device code."},
	{"device_deps", "list of labels", "Libraries of device functions."},
	{"device_link", "bool", "Whether the target links its device code."},
	{"device_linkopts", "list of strings", "Linker flags for device code."},
	{"device_name", "string", "Name of the projects of device wheels, without the GPU."},
	{"disassembler", "label", "An `llvm-objdump`, which compares the instructions of images."},
	{"extension", "string", "Extension of the outputs."},
	{"families", "dict of string to list of strings", "GPUs that share a device wheel, by the name of their family."},
	{"fail_on", "list of strings", "Changes that fail a validation."},
	{"group", "string", "Prefix of the names of archives."},
	{"hdrs", "list of labels", "As in `cc_library`."},
	{"header", "string", "File name of the generated header."},
	{"hip_openmp_compatible", "bool", "Whether HIP code is compatible with OpenMP targets."},
	{"host", "string", "Triple of the host."},
	{"host_copts", "list of strings", "Compiler flags for host code."},
	{"host_dir", "string", "Directory of the file without device code."},
	{"images", "list of labels", "Targets that provide device images."},
	{"implementation_deps", "list of labels", "As in `cc_library`."},
	{"include_prefix", "string", "As in `cc_library`."},
	{"includes", "list of strings", "As in `cc_library`."},
	{"incremental", "string", "Whether a bundle is built in parts; also a setting."},
	{"kernel_name", "string", "Name of a library in archives."},
	{"kind", "string", "Offload kind, such as `hip` or `openmp`."},
	{"kpack_dir", "string", "Directory of archives."},
	{"linkopts", "list of strings", "As in `cc_library`."},
	{"linkstatic", "bool", "As in `cc_library`."},
	{"llvm_version", "int", "LLVM release of a runtime."},
	{"local_defines", "list of strings", "As in `cc_library`."},
	{"lto", "string", "Link-time optimization of device code."},
	{"max_growth", "string", "Maximum growth since `base`."},
	{"max_size", "string", "Maximum size of the output."},
	{"new_compiler", "string", "Compiler of the new build, as in the setting `device_compiler`."},
	{"new_copts", "list of strings", "Compiler flags for device code in the new build."},
	{"new_lto", "string", "`lto` in the new build."},
	{"offload_archs", "list of strings", "Architectures, and where possible other targets, that device code is compiled for, or kept for; also a setting."},
	{"old_compiler", "string", "Compiler of the old build, as in the setting `device_compiler`."},
	{"old_copts", "list of strings", "Compiler flags for device code in the old build."},
	{"old_lto", "string", "`lto` in the old build."},
	{"out", "string", "File name of the output."},
	{"properties", "dict of string to string", "Properties of images."},
	{"rdc", "bool", "Whether to compile to relocatable device code."},
	{"relocatable", "bool", "Whether the output is one object that programs of other builds can contain."},
	{"remarks", "bool", "Whether compilers write optimization records."},
	{"split_debug_info", "bool", "Whether to move the debug information of device code to files of its own."},
	{"src", "label", "The file that the rule reads, of any kind, or a target with one."},
	{"srcs", "list of labels, dict of label to string", "The files that the rule reads, of any kind, or targets with them; for rules that compile, sources. `offload_images` has a target ID for each."},
	{"strip_include_prefix", "string", "As in `cc_library`."},
	{"suggest", "list of strings", "Names of compiler flags to try."},
	{"symbol", "string", "Name in C."},
	{"targets", "list of strings", "Targets of the images to extract: `offload_archs` for a file that exists."},
	{"textual_hdrs", "list of labels", "As in `cc_library`."},
	{"tolerances", "dict of string to string", "Changes of values that are accepted."},
	{"type", "string", "File type, as in `clang-offload-bundler -type`."},
}

// structured matches documentation of a string that has parts of its own: lists in a string, negated entries, and
// KEY=VALUE. Only definitions have such strings, as in cc_library.
var structured = regexp.MustCompile("(?i:\\b(space|comma|semicolon)s?[- ]separated|separated by|prefix `!)|\\b[A-Z]+=[A-Z]+\\b")

const definition = "`NAME=VALUE`"

// everyTarget are the parameters of macros that all targets have.
var everyTarget = []string{"name", "visibility", "**kwargs"}

// outsideVocabulary returns an error for each attribute of a rule or macro that is not in the vocabulary, or has another
// type there, for each attribute whose strings have parts of their own, and for each word that no rule has.
func outsideVocabulary(modules []*module, vocabulary []word) []error {
	var problems []error
	used := map[string]bool{}
	for _, m := range modules {
		if m.declaresToolchains() {
			continue
		}
		for _, s := range m.symbols {
			if s.kind != "rule" && !s.isMacro() {
				continue
			}
			for _, f := range s.fields {
				if f.kind == "name" || s.isMacro() && slices.Contains(everyTarget, f.name) {
					continue
				}
				used[f.name] = true
				if part := structured.FindString(strings.ReplaceAll(f.doc, definition, "")); part != "" {
					problems = append(problems, fmt.Errorf("%s: the attribute %s has strings in strings (%q): use lists, or a dict with lists", s.name, f.name, part))
				}
				i := slices.IndexFunc(vocabulary, func(w word) bool { return w.name == f.name })
				switch {
				case i < 0:
					problems = append(problems, fmt.Errorf("%s: the attribute %s is not in the vocabulary of tools/docs: use a word that is, or add it", s.name, f.name))
				case s.kind == "rule" && !slices.Contains(strings.Split(vocabulary[i].kinds, ", "), f.kind):
					problems = append(problems, fmt.Errorf("%s: the attribute %s is a %s, expected a %s as in other rules", s.name, f.name, f.kind, vocabulary[i].kinds))
				}
			}
		}
	}
	for _, w := range vocabulary {
		if !used[w.name] {
			problems = append(problems, fmt.Errorf("the vocabulary of tools/docs has the attribute %s, which no rule has", w.name))
		}
	}
	return problems
}
