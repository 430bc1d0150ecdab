package equality

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// Each rule of the workspace, by its first two lines.
var ruleCall = regexp.MustCompile(`(?m)^(\w+)\(\n    name = "(\w+)",\n`)

// attributesOfAll are attributes that Bazel gives every rule.
const attributesOfAll = `    compatible_with = [":special"],
    testonly = True,
`

// attributesOfOurs are the attributes whose meaning depends on the actions of a rule. tags are
// added to those that it has.
const attributesOfOurs = `    features = ["parse_headers"],
    toolchains = [":variables"],
    visibility = ["//visibility:private"],
`

const matrixTags = `"requires-matrix", "no-remote-cache"`

// matrixFile is appended to the BUILD file: targets for the attributes, and programs that link the
// libraries. They do not have compatible_with, which a default dependency of cc_binary does not
// support.
const matrixFile = `
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("@rules_offload//rules:defs.bzl", "hip_binary", "hip_test")
load(":variables.bzl", "runfiles", "variables")

environment(name = "special")

environment_group(
    name = "environments",
    defaults = [],
    environments = [":special"],
)

variables(name = "variables", compatible_with = [":special"])

cc_binary(
    name = "linking",
    srcs = ["main.cc"],
    testonly = True,
    deps = [":library", ":openmp", ":relocatable", ":pruned_library"],
)

cc_library(
    name = "imported",
    srcs = [":shared_library"],
    compatible_with = [":special"],
    data = ["main.cc"],
    linkopts = ["-Wl,--defsym=pruned_matrix=0"],
    testonly = True,
)

offload_prune(
    name = "pruned_library",
    compatible_with = [":special"],
    src = ":imported",
    offload_archs = ["gfx1100"],
    testonly = True,
)

[
    macro(
        name = "macro_" + macro_name,
        srcs = ["launch.hip"],
        copts = select({"//conditions:default": ["$(MATRIX)"]}),
        data = select({"//conditions:default": ["main.cc"]}),
        exec_properties = select({"//conditions:default": {"matrix": "none"}}),
        features = ["parse_headers"],
        library_exec_properties = select({"//conditions:default": {"matrix": "none"}}),
        linkopts = select({"//conditions:default": ["-Wl,--defsym=macro_$(MATRIX_SYMBOL)=0"]}),
        offload_archs = select({"//conditions:default": ["gfx1100"]}),
        tags = [` + matrixTags + `],
        testonly = True,
        toolchains = [":variables"],
        visibility = ["//visibility:private"],
    )
    for macro_name, macro in [("binary", hip_binary), ("test", hip_test)]
]
`

const variablesFile = `def _variables_impl(_ctx):
    return [platform_common.TemplateVariableInfo({"MATRIX": "-DMATRIX=1", "MATRIX_SYMBOL": "matrix"})]

variables = rule(implementation = _variables_impl)

def _runfiles_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name)
    args = ctx.actions.args()
    args.add_all(ctx.attr.target[DefaultInfo].default_runfiles.files)
    ctx.actions.run_shell(arguments = [args], command = "touch " + out.path, mnemonic = "MatrixRunfiles", outputs = [out])
    return [DefaultInfo(files = depset([out]))]

# Has an action whose arguments are the runfiles of a target.
runfiles = rule(
    implementation = _runfiles_impl,
    attrs = {"target": attr.label()},
)
`

// dataOf are the targets with data, or with dependencies that have data.
var dataOf = []string{"library", "macro_binary", "macro_test", "openmp", "pruned_library", "unlinked"}

// flagsOf are attributes with flags, for the rules that have them.
var flagsOf = map[string]string{
	"cuda_ptx":               "    copts = [\"$(MATRIX)\"],\n",
	"device_bitcode_library": "    copts = [\"$(MATRIX)\"],\n",
	"hip_code_objects":       "    copts = [\"$(MATRIX)\"],\n",
	"hip_library":            "    copts = [\"$(MATRIX)\"],\n    data = [\"main.cc\"],\n    linkopts = [\"-Wl,--defsym=hip_$(MATRIX_SYMBOL)=0\"],\n",
	"openmp_library":         "    copts = [\"$(MATRIX)\"],\n    data = [\"main.cc\"],\n    linkopts = [\"-Wl,--defsym=openmp_$(MATRIX_SYMBOL)=0\"],\n",
}

// groupsOf are the exec groups of rules, besides the default one.
var groupsOf = map[string][]string{
	"cuda_ptx": {"compile", "link"}, "device_bitcode_library": {"compile"}, "hip_code_objects": {"compile", "link"},
	"hip_device_link": {"bundle", "compile", "link"}, "hip_library": {"bundle", "compile", "link"},
	"openmp_library": {"bundle", "compile", "link"}, "offload_link": {"link"},
	"offload_images": nil, "offload_package_test": nil, "offload_per_arch": nil,
}

// groupOf returns the exec group of the actions of a mnemonic.
func groupOf(mnemonic string) string {
	switch {
	case mnemonic == "OffloadParseHeader":
		return "compile"
	case mnemonic == "OffloadSplitDebug":
		return "link"
	case ofProgram(mnemonic):
		return "bundle"
	case strings.Contains(mnemonic, "Link") || mnemonic == "OffloadMerge":
		return "link"
	}
	return "compile"
}

// ours reports whether a rule is one of the rules under test.
func ours(rule string) bool { return ourRule.MatchString(rule) }

var ourRule = regexp.MustCompile("^(cuda|device|hip|offload|openmp)_")

// properties returns the attribute exec_properties of a rule: the name of each group as the value of the property matrix.
func properties(rule string) string {
	groups, ok := groupsOf[rule]
	if !ok {
		groups = []string{"bundle"}
	}
	entries := []string{`"matrix": "none"`}
	for _, group := range groups {
		entries = append(entries, fmt.Sprintf("%q: %q", group+".matrix", group))
	}
	return "    exec_properties = {" + strings.Join(entries, ", ") + "},\n"
}

// withAttributes returns a BUILD file in which each rule has more attributes.
func withAttributes(build string, attributes func(rule string) string) string {
	return ruleCall.ReplaceAllStringFunc(build, func(head string) string {
		return head + attributes(ruleCall.FindStringSubmatch(head)[1])
	})
}

// matrix returns the workspace of everyRule with each common attribute on each rule.
func matrix() map[string]string {
	files := maps.Clone(everyRule())
	build := strings.ReplaceAll(files["BUILD.bazel"], "    tags = [\"manual\"],\n", "")
	files["BUILD.bazel"] = withAttributes(build, func(rule string) string {
		if !ours(rule) {
			return attributesOfAll
		}
		tags := "    tags = [" + matrixTags + "],\n"
		return attributesOfAll + attributesOfOurs + tags + flagsOf[rule] + properties(rule)
	}) + matrixFile
	files["BUILD.bazel"] = strings.Replace(files["BUILD.bazel"], `    name = "split_kernels",`+"\n"+attributesOfAll+attributesOfOurs+"    tags = [",
		`    name = "split_kernels",`+"\n"+attributesOfAll+attributesOfOurs+`    tags = ["manual", `, 1)
	for _, name := range dataOf {
		files["BUILD.bazel"] += fmt.Sprintf("runfiles(name = \"runfiles_of_%[1]s\", target = \":%[1]s\", testonly = True)\n", name)
	}
	files["variables.bzl"] = variablesFile
	files["main.cc"] = "int main() { return 0; }\n"
	return files
}

// names returns the targets of our rules in a BUILD file.
func names(build string) []string {
	var found []string
	for _, call := range ruleCall.FindAllStringSubmatch(build, -1) {
		if ours(call[1]) {
			found = append(found, call[2])
		}
	}
	return found
}

// TestAttributes checks the effect of attributes that Bazel and rules_cc define on the actions of
// each rule.
func TestAttributes(t *testing.T) {
	files := matrix()
	workspace := bazeltest.New(t, t.TempDir(), files)
	commands := workspace.Commands(`mnemonic("(Offload|CppLink|MatrixRunfiles).*", deps(//:all))`)
	t.Run("tags", func(t *testing.T) { testTags(t, commands) })
	t.Run("toolchains", func(t *testing.T) { testVariables(t, commands) })
	t.Run("linkopts", func(t *testing.T) { testLinkopts(t, commands) })
	t.Run("features", func(t *testing.T) { testFeatures(t, commands) })
	t.Run("data", func(t *testing.T) { testData(t, commands) })
	built := workspace.Bazel(append([]string{"build"}, ofEachGroup...)...)
	t.Run("exec_properties", func(t *testing.T) { testProperties(t, built) })
	t.Run("two execution platforms", func(t *testing.T) { testMachines(t, workspace, built) })
	t.Run("path mapping", func(t *testing.T) { testPathMapping(t, workspace) })
	t.Run("visibility, testonly, compatible_with", func(t *testing.T) { testDependents(t, workspace, names(files["BUILD.bazel"])) })
	t.Run("target_compatible_with", func(t *testing.T) { testIncompatible(t, workspace) })
	t.Run("--compile_one_dependency", func(t *testing.T) {
		for _, file := range []string{"fill.hip", "ptx.cu", "region.c", "twice.ll"} {
			workspace.Bazel("build", "--nobuild", "--compile_one_dependency", file)
		}
	})
	t.Run("--features", func(t *testing.T) {
		workspace.Write("BUILD.bazel", everyRule()["BUILD.bazel"])
		if n := mnemonics(workspace.Commands(`mnemonic("OffloadParseHeader", deps(//:all))`))["OffloadParseHeader"]; n != 0 {
			t.Errorf("%d headers are parsed without the feature", n)
		}
		testFeatures(t, workspace.Commands(`mnemonic("Offload.*", deps(//:all))`, "--features=parse_headers"))
	})
}

func mnemonics(commands []bazeltest.Command) map[string]int {
	n := map[string]int{}
	for _, command := range commands {
		n[command.Mnemonic]++
	}
	return n
}

// testTags checks that execution tags reach all actions, except those of hip_test: its tags are for the test alone.
func testTags(t *testing.T, commands []bazeltest.Command) {
	seen := mnemonics(commands)
	for mnemonic := range actions {
		if strings.HasPrefix(mnemonic, "Offload") && seen[mnemonic] == 0 {
			t.Errorf("no action %s", mnemonic)
		}
	}
	seenOfTest := map[string]int{}
	for _, command := range commands {
		others := slices.ContainsFunc(command.Arguments, func(arg string) bool {
			return strings.Contains(arg, "/pruned_library/") || strings.Contains(arg, "/rules/settings/")
		})
		ofTest := slices.ContainsFunc(command.Arguments, func(arg string) bool { return strings.Contains(arg, "/macro_test_") })
		if ofTest {
			seenOfTest[command.Mnemonic]++
			for tag := range command.Requirements {
				if strings.HasPrefix(tag, "requires-") && tag != "requires-worker-protocol" || strings.HasPrefix(tag, "no-") || strings.HasPrefix(tag, "resources:") {
					t.Errorf("%s has the tag %s of the test: %q", command.Mnemonic, tag, command.Arguments)
				}
			}
		}
		if others || ofTest || !strings.HasPrefix(command.Mnemonic, "Offload") {
			continue
		}
		for _, tag := range []string{"requires-matrix", "no-remote-cache"} {
			if _, ok := command.Requirements[tag]; !ok {
				t.Errorf("%s does not have the tag %s: %q", command.Mnemonic, tag, command.Arguments)
			}
		}
	}
	for _, mnemonic := range []string{"CppLink", "OffloadDeviceLink", "OffloadHipCompile", "OffloadHipHostCompile"} {
		if seenOfTest[mnemonic] == 0 {
			t.Errorf("no %s of the test: %v", mnemonic, seenOfTest)
		}
	}
}

// testVariables checks that a Make variable of a target in toolchains reaches all compilations of sources.
func testVariables(t *testing.T, commands []bazeltest.Command) {
	compilations := regexp.MustCompile(`^Offload(Bitcode|Cuda|Hip|HipHost|HipPortable|OpenMp|OpenMpHost)Compile$`)
	seen := map[string]int{}
	for _, command := range commands {
		if !compilations.MatchString(command.Mnemonic) || slices.ContainsFunc(command.Arguments, func(arg string) bool { return strings.HasSuffix(arg, ".ll") }) {
			continue // LLVM IR has no macros
		}
		seen[command.Mnemonic]++
		if !slices.Contains(command.Arguments, "-DMATRIX=1") {
			t.Errorf("%s does not have the flag: %q", command.Mnemonic, command.Arguments)
		}
	}
	if len(seen) != 7 {
		t.Errorf("found %v, expected 7 kinds of compilations", seen)
	}
}

// testLinkopts checks that programs that depend on a library have its linkopts, and hip_binary and hip_test their own.
func testLinkopts(t *testing.T, commands []bazeltest.Command) {
	want := map[string][]string{
		"linking":            {"-Wl,--defsym=hip_matrix=0", "-Wl,--defsym=openmp_matrix=0", "-Wl,--defsym=pruned_matrix=0"},
		"macro_binary":       {"-Wl,--defsym=macro_matrix=0"},
		"macro_test_program": {"-Wl,--defsym=macro_matrix=0"},
	}
	for _, command := range commands {
		for name, flags := range want {
			if command.Mnemonic != "CppLink" || !slices.ContainsFunc(command.Arguments, func(arg string) bool { return strings.HasSuffix(arg, "/bin/"+name) }) {
				continue
			}
			for _, flag := range flags {
				if !slices.Contains(command.Arguments, flag) {
					t.Errorf("the link of %s does not have %s: %q", name, flag, command.Arguments)
				}
			}
			delete(want, name)
		}
	}
	for name := range want {
		t.Errorf("no link of %s", name)
	}
}

// testFeatures checks that the feature parse_headers adds actions to the rules that have headers.
func testFeatures(t *testing.T, commands []bazeltest.Command) {
	parsed := map[string]bool{}
	for _, command := range commands {
		if command.Mnemonic == "OffloadParseHeader" {
			for _, arg := range command.Arguments {
				if name, _, found := strings.Cut(arg[strings.LastIndex(arg, "/bin/")+1:], "/headers/"); found {
					parsed[strings.TrimPrefix(name, "bin/")] = true
				}
			}
		}
	}
	for _, name := range []string{"library", "openmp", "relocatable", "unlinked"} {
		if !parsed[name] {
			t.Errorf("the headers of %s are not parsed: %v", name, parsed)
		}
	}
}

// testData checks that programs have the data of the libraries that they depend on, and a pruned library that of src.
func testData(t *testing.T, commands []bazeltest.Command) {
	seen := 0
	for _, command := range commands {
		if command.Mnemonic != "MatrixRunfiles" {
			continue
		}
		seen++
		if !slices.Contains(command.Arguments, "main.cc") {
			t.Errorf("the runfiles do not have main.cc: %q", command.Arguments)
		}
	}
	if seen != len(dataOf) {
		t.Errorf("%d targets were looked at, expected %d", seen, len(dataOf))
	}
}

// ofEachGroup are targets with actions of each exec group.
var ofEachGroup = []string{"//:archive", "//:bitcode", "//:fat", "//:library", "//:linked", "//:program_code", "//:ptx"}

// testProperties checks that each action of a build of ofEachGroup has the properties of its exec group.
func testProperties(t *testing.T, result *bazeltest.Result) {
	seen := map[string]int{}
	for _, spawn := range result.Spawns {
		if !strings.HasPrefix(spawn.Mnemonic, "Offload") {
			continue
		}
		group := groupOf(spawn.Mnemonic)
		seen[group]++
		if got := spawn.Properties["matrix"]; got != group {
			t.Errorf("%s has the property %q, expected %q, that of its exec group", spawn.Mnemonic, got, group)
		}
	}
	for _, group := range []string{"bundle", "compile", "link"} {
		if seen[group] == 0 {
			t.Errorf("no action of the exec group %s was run: %v", group, seen)
		}
	}
}

// testDependents checks that targets that must not depend on ours fail: those of other packages,
// those that are not testonly, and those of another environment.
func testDependents(t *testing.T, workspace *bazeltest.Workspace, names []string) {
	for _, test := range []struct{ name, pkg, attributes, message string }{
		{"visibility", "other/", "testonly = True", "Visibility error"},
		{"testonly", "", "", "non-test target '//:dependent_of_%[1]s' depends on testonly target '//:%[1]s'"},
		{"compatible_with", "", `testonly = True, compatible_with = [":plain_environment"]`, "//:%[1]s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			build := ""
			if test.pkg == "" {
				build = matrix()["BUILD.bazel"]
			}
			if test.name == "compatible_with" {
				build = strings.Replace(build, "environments = [", `environments = [":plain_environment", `, 1) + "environment(name = \"plain_environment\")\n"
			}
			var targets []string
			for _, name := range names {
				build += fmt.Sprintf("filegroup(name = \"dependent_of_%s\", srcs = [\"//:%s\"], %s)\n", name, name, test.attributes)
				targets = append(targets, "//"+strings.TrimSuffix(test.pkg, "/")+":dependent_of_"+name)
			}
			workspace.Write(test.pkg+"BUILD.bazel", build)
			defer workspace.Write("BUILD.bazel", matrix()["BUILD.bazel"])
			result, err := workspace.Try(append([]string{"build", "--nobuild", "--keep_going"}, targets...)...)
			if err == nil {
				t.Fatalf("Bazel does not fail:\n%s", result.Output)
			}
			for _, name := range names {
				if want := fmt.Sprintf("//%s:dependent_of_%s", strings.TrimSuffix(test.pkg, "/"), name); !strings.Contains(result.Output, want+"' failed") && !strings.Contains(result.Output, "'"+want+"'") {
					t.Errorf("%s does not fail", want)
				}
			}
		})
	}
}

// testIncompatible checks that Bazel skips targets that are incompatible with the target platform.
func testIncompatible(t *testing.T, workspace *bazeltest.Workspace) {
	build := everyRule()["BUILD.bazel"]
	incompatible := withAttributes(build, func(rule string) string {
		if !ours(rule) {
			return ""
		}
		return "    target_compatible_with = [\":elsewhere\"],\n"
	}) + `
constraint_setting(name = "place")

constraint_value(
    name = "elsewhere",
    constraint_setting = ":place",
)
`
	workspace.Write("BUILD.bazel", incompatible)
	if got := mnemonics(workspace.Commands(`mnemonic("Offload.*", //:all)`)); len(got) != 0 {
		t.Errorf("incompatible targets have actions: %v", got)
	}
	const skipped = `"yes" if "IncompatiblePlatformProvider" in providers(target) else str(target.label)`
	for _, name := range names(build) {
		if got := workspace.Bazel("cquery", "//:"+name, "--output=starlark", "--starlark:expr="+skipped).Stdout; strings.TrimSpace(got) != "yes" {
			t.Errorf("%s is not incompatible: %s", name, got)
		}
	}
}
