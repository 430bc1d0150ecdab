// Package bazel9 checks the Starlark files of the project and its examples for APIs that Bazel 8
// and 9 removed. The tests run with Bazel 7, which still has these APIs.
package bazel9

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bazelbuild/buildtools/build"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// removed has the rules and providers that Bazel 9 removed from its globals: files must load them
// from the ruleset of the language.
var removed = words(`
	AndroidIdeInfo CcInfo CcSharedLibraryHintInfo CcSharedLibraryInfo CcToolchainConfigInfo DebugPackageInfo JavaInfo
	JavaPluginInfo ProguardSpecProvider ProtoInfo PyCcLinkParamsProvider PyInfo PyRuntimeInfo aar_import android_binary
	android_library android_local_test android_sdk android_tools_defaults_jar apple_common available_xcodes cc_binary
	cc_common cc_import cc_library cc_proto_aspect cc_proto_library cc_shared_library cc_static_library cc_test
	cc_toolchain cc_toolchain_suite fdo_prefetch_hints fdo_profile java_binary java_common java_import java_library
	java_lite_proto_library java_package_configuration java_plugin java_proto_library java_runtime java_test
	java_toolchain memprof_profile objc_import objc_library propeller_optimize proto_common_do_not_use
	proto_lang_toolchain proto_library py_binary py_library py_runtime py_test sh_binary sh_library sh_test xcode_config
	xcode_config_alias xcode_version`)

// removedFields has fields and methods that Bazel 8 and 9 remove or deprecate, with their
// replacements.
var removedFields = map[string]string{
	"build_file_path":    "ctx.label",
	"relative":           "native.package_relative_label() or Label()",
	"repository_name":    "native.repo_name()",
	"resolve_command":    "ctx.actions.run()",
	"resolve_tools":      "ctx.actions.run()",
	"to_json":            "json.encode()",
	"to_proto":           "proto.encode_text()",
	"workspace_name":     "Label.repo_name",
	"local_repository":   "@bazel_tools//tools/build_defs/repo:local.bzl",
	"new_git_repository": "@bazel_tools//tools/build_defs/repo:git.bzl",
}

// removedArguments has arguments of functions that Bazel 9, or one of its flags, rejects.
var removedArguments = map[string][]string{
	"aspect": words("incompatible_use_toolchain_transition"),
	"rule":   words("incompatible_use_toolchain_transition outputs"),
}

func words(s string) []string { return strings.Fields(s) }

// ruleCall finds the beginning of a rule in the text of a BUILD file.
var ruleCall = regexp.MustCompile(`(?m)^ *([a-z][a-z_]*)\($`)

// check returns a line for each use of something that Bazel 9 removed.
func check(name string, content []byte) ([]string, error) {
	parse := build.ParseBuild
	if strings.HasSuffix(name, ".bzl") {
		parse = build.ParseBzl
	}
	file, err := parse(name, content)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	keywords := map[*build.Ident]bool{}
	build.Walk(file, func(x build.Expr, _ []build.Expr) {
		switch x := x.(type) {
		case *build.LoadStmt:
			for _, ident := range x.From {
				own[ident.Name] = true
			}
			for _, ident := range x.To {
				own[ident.Name] = true
				keywords[ident] = true
			}
		case *build.DefStmt:
			own[x.Name] = true
		case *build.CallExpr:
			for _, argument := range x.List {
				if assign, ok := argument.(*build.AssignExpr); ok {
					if ident, ok := assign.LHS.(*build.Ident); ok {
						keywords[ident] = true
					}
				}
			}
		case *build.AssignExpr:
			// Keyword arguments of calls are handled in the case of the call.
			if ident, ok := x.LHS.(*build.Ident); ok && !keywords[ident] {
				own[ident.Name] = true
			}
		}
	})
	var found []string
	report := func(x build.Expr, format string, values ...any) {
		start, _ := x.Span()
		found = append(found, fmt.Sprintf("%s:%d: ", name, start.Line)+fmt.Sprintf(format, values...))
	}
	build.Walk(file, func(x build.Expr, _ []build.Expr) {
		switch x := x.(type) {
		case *build.Ident:
			if !keywords[x] && !own[x.Name] && slices.Contains(removed, x.Name) {
				report(x, "Bazel 9 has no %s: load it from its ruleset", x.Name)
			}
		case *build.DotExpr:
			of, _ := x.X.(*build.Ident)
			if of != nil && of.Name == "native" && slices.Contains(removed, x.Name) {
				report(x, "Bazel 9 has no native.%s: load it from its ruleset", x.Name)
			}
			// ctx.workspace_name stays; Label.workspace_name is removed.
			if instead, ok := removedFields[x.Name]; ok && (of == nil || of.Name != "ctx" || x.Name != "workspace_name") {
				report(x, "Bazel 8 or 9 has no .%s: use %s", x.Name, instead)
			}
		case *build.CallExpr:
			function, _ := x.X.(*build.Ident)
			for _, argument := range x.List {
				assign, ok := argument.(*build.AssignExpr)
				if !ok {
					continue
				}
				keyword, _ := assign.LHS.(*build.Ident)
				if function != nil && keyword != nil && slices.Contains(removedArguments[function.Name], keyword.Name) {
					report(assign, "Bazel 9 has no argument %s of %s()", keyword.Name, function.Name)
				}
				if value, ok := assign.RHS.(*build.StringExpr); ok && keyword != nil && keyword.Name == "cfg" && value.Value == "host" {
					report(assign, `Bazel 9 has no host configuration: use "exec"`)
				}
			}
		case *build.StringExpr:
			// The text of a BUILD file that a repository rule writes. Examples in documentation may
			// be incomplete.
			if strings.Contains(x.Value, "```") {
				return
			}
			for _, match := range ruleCall.FindAllStringSubmatch(x.Value, -1) {
				if slices.Contains(removed, match[1]) && !strings.Contains(x.Value, `"`+match[1]+`"`) {
					report(x, "Bazel 9 has no %s: the text of the BUILD file must load it", match[1])
				}
			}
		}
	})
	return found, nil
}

// TestCheck tests check with sources that have one error each, or none.
func TestCheck(t *testing.T) {
	for _, test := range []struct{ name, content, want string }{
		{"BUILD.bazel", "cc_library(name = \"a\")\n", "no cc_library"},
		{"BUILD.bazel", "load(\"@rules_cc//cc:defs.bzl\", \"cc_library\")\ncc_library(name = \"a\")\n", ""},
		{"BUILD.bazel", "load(\"@rules_cc//cc:defs.bzl\", library = \"cc_library\")\nlibrary(name = \"a\")\n", ""},
		{"BUILD.bazel", "[sh_test(name = n) for n in [\"a\"]]\n", "no sh_test"},
		{"BUILD.bazel", "glob([\"a\"], cc_library = 1)\n", ""},
		{"a.bzl", "def f(ctx):\n    return ctx.attr.dep[CcInfo]\n", "no CcInfo"},
		{"a.bzl", "def f():\n    native.cc_test(name = \"a\")\n", "no native.cc_test"},
		{"a.bzl", "def f():\n    native.filegroup(name = \"a\")\n", ""},
		{"a.bzl", "x = struct().to_json()\n", "json.encode"},
		{"a.bzl", "r = rule(outputs = {})\n", "no argument outputs"},
		{"a.bzl", "a = attr.label(cfg = \"host\")\n", "host configuration"},
		{"a.bzl", "B = \"\"\"\ncc_import(\n    name = \"a\",\n)\n\"\"\"\n", "must load it"},
		{"a.bzl", "D = \"\"\"\n```starlark\ncc_import(\n)\n```\n\"\"\"\n", ""},
		{"a.bzl", "def f():\n    cc_toolchain = g()\n    return cc_toolchain\n", ""},
		{"a.bzl", "B = \"\"\"load(\"@rules_cc//cc:defs.bzl\", \"cc_import\")\ncc_import(\n    name = \"a\",\n)\n\"\"\"\n", ""},
	} {
		found, err := check(test.name, []byte(test.content))
		if err != nil {
			t.Error(err)
		}
		if (test.want == "") != (len(found) == 0) || len(found) > 1 || test.want != "" && !strings.Contains(found[0], test.want) {
			t.Errorf("%q: %q, want %q", test.content, found, test.want)
		}
	}
}

// TestSources checks all Starlark files of the project and its examples.
func TestSources(t *testing.T) {
	sources := bazeltest.Sources(t)
	checked := 0
	err := filepath.WalkDir(sources, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == ".git" || name == "testdata" || strings.HasPrefix(name, "bazel-") {
				return fs.SkipDir
			}
			return nil
		}
		if entry.Name() != "BUILD.bazel" && filepath.Ext(path) != ".bzl" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := check(path, content)
		for _, line := range found {
			t.Error(line)
		}
		checked++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// rules/ alone has 50 files: fewer mean that the search started in the wrong directory.
	if checked < 150 {
		t.Errorf("%d files were checked in %s", checked, sources)
	}
}

// TestReproducible checks which repository rules return that their files depend on their attributes only. Since Bazel 8.3,
// workspaces share these repositories; Debian's Bazel ignores it. tests/analysis checks the condition.
func TestReproducible(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(bazeltest.Sources(t), "rules", "private", "*.bzl"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := build.ParseBzl(name, content)
		if err != nil {
			t.Fatal(err)
		}
		reproducible := map[string]bool{} // by the name of the implementation
		for _, statement := range file.Stmt {
			switch x := statement.(type) {
			case *build.DefStmt:
				end, _ := x.Body[len(x.Body)-1].(*build.ReturnStmt)
				reproducible[x.Name] = end != nil && strings.HasPrefix(build.FormatString(end.Result), "reproducible(")
			case *build.AssignExpr:
				call, _ := x.RHS.(*build.CallExpr)
				if call == nil || build.FormatString(call.X) != "repository_rule" {
					continue
				}
				for _, argument := range call.List {
					if assign, ok := argument.(*build.AssignExpr); ok && build.FormatString(assign.LHS) == "implementation" {
						got[build.FormatString(x.LHS)] = reproducible[build.FormatString(assign.RHS)]
					}
				}
			}
		}
	}
	want := map[string]bool{
		"archive_clang": true, "archive_rocm": true, "compiler_toolchains": true, "prebuilt_program": true, "program_toolchains": true,
		// These depend on the release of Bazel, on Go, and on the machine.
		"bazel_version": false, "built_program": false, "native_repository": false, "system_clang": false,
	}
	if !maps.Equal(want, got) {
		t.Errorf("repository rules that return reproducible(): found %v, want %v", got, want)
	}
}

// TestVersions checks which releases of Bazel the module accepts. Debian's Bazel has no version, so
// it does not check this itself.
func TestVersions(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(bazeltest.Sources(t), "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := build.ParseModule("MODULE.bazel", content)
	if err != nil {
		t.Fatal(err)
	}
	rules := file.Rules("module")
	if len(rules) != 1 {
		t.Fatalf("%d calls of module()", len(rules))
	}
	constraints := rules[0].AttrStrings("bazel_compatibility")
	for _, constraint := range constraints {
		// Bazel accepts an operator and a version of three numbers.
		if !regexp.MustCompile(`^(>=|<=|>|<|-)\d+\.\d+\.\d+$`).MatchString(constraint) {
			t.Errorf("%q is no constraint", constraint)
		}
	}
	for version, want := range map[string]bool{
		"7.5.0": false, "7.6.0": true, "7.7.1": true,
		"8.0.0": true, "8.0.1": true, "8.1.0": true, "8.1.1": true, "8.2.0": true, "8.7.0": true,
		"9.0.0": true, "9.2.0": true, "10.0.0": true,
	} {
		if got := accepted(t, constraints, version); got != want {
			t.Errorf("Bazel %s: accepted is %t, want %t", version, got, want)
		}
	}
}

// accepted applies the constraints of a module as Bazel does.
func accepted(t *testing.T, constraints []string, version string) bool {
	for _, constraint := range constraints {
		operator := strings.TrimRight(constraint, "0123456789.")
		order := slices.Compare(numbers(t, version), numbers(t, constraint[len(operator):]))
		ok := map[string]bool{">=": order >= 0, "<=": order <= 0, ">": order > 0, "<": order < 0, "-": order != 0}[operator]
		if !ok {
			return false
		}
	}
	return true
}

func numbers(t *testing.T, version string) []int {
	var result []int
	for part := range strings.SplitSeq(version, ".") {
		number, err := strconv.Atoi(part)
		if err != nil {
			t.Fatal(err)
		}
		result = append(result, number)
	}
	return result
}
