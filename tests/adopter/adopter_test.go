// Package adopter checks what the module brings into the workspace of a user of
// the rules: which modules, which repositories, and which builds of the program.
package adopter

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bazelbuild/buildtools/build"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

var full = flag.Bool("full", false, "build the Gazelle extension from its own module, which compiles Gazelle")

func TestMain(m *testing.M) {
	flag.Parse()
	llvm.Main(m, "clang")
}

// goModule is a go_deps.module() of a MODULE.bazel file.
type goModule struct{ Version, Sum string }

// goModules returns the calls of go_deps.module() in a file.
func goModules(t *testing.T, file *build.File) map[string]goModule {
	modules := map[string]goModule{}
	for _, rule := range file.Rules("go_deps.module") {
		modules[rule.AttrString("path")] = goModule{rule.AttrString("version"), rule.AttrString("sum")}
	}
	if len(modules) == 0 {
		t.Fatalf("%s: no go_deps.module()", file.Path)
	}
	return modules
}

func parse(t *testing.T, elements ...string) *build.File {
	name := filepath.Join(elements...)
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := build.ParseModule(name, content)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestVersions checks that the MODULE.bazel file of the Gazelle extension has the
// versions and sums of go.mod and go.sum, which Go updates, and leaves the choice
// of a Go SDK to its users.
func TestVersions(t *testing.T) {
	sources := bazeltest.Sources(t)
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(sources, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	goMod, goSum := read("go.mod"), read("go.sum")
	root, gazelle := parse(t, sources, "MODULE.bazel"), parse(t, sources, "gazelle", "MODULE.bazel")
	for path, module := range goModules(t, gazelle) {
		if !regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(path+" "+module.Version) + `( |$)`).MatchString(goMod) {
			t.Errorf("%s: go.mod does not require %s %s", gazelle.Path, path, module.Version)
		}
		if line := path + " " + module.Version + " " + module.Sum + "\n"; !strings.Contains(goSum, line) {
			t.Errorf("%s: go.sum has no line %q", gazelle.Path, line)
		}
	}
	for _, rule := range gazelle.Rules("") {
		if strings.HasPrefix(rule.Kind(), "go_sdk.") {
			t.Errorf("%s: %s: the extension sets a Go SDK for its users", gazelle.Path, rule.Kind())
		}
	}
	for _, name := range []string{"gazelle", "rules_go"} {
		if a, b := dependency(root, name), dependency(gazelle, name); a == "" || a != b {
			t.Errorf("%s is %q in MODULE.bazel, %q in gazelle/MODULE.bazel", name, a, b)
		}
	}
}

// dependency returns the version of a bazel_dep().
func dependency(file *build.File, name string) string {
	for _, rule := range file.Rules("bazel_dep") {
		if rule.Name() == name {
			return rule.AttrString("version")
		}
	}
	return ""
}

// adopter is a workspace that takes the program from the rules, as users do.
// rules is the directory of the module.
func adopter(t *testing.T, rules string, contents map[string]string) *bazeltest.Workspace {
	t.Helper()
	w := bazeltest.New(t, t.TempDir(), contents)
	module, err := os.ReadFile(filepath.Join(w.Dir, "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`path = "[^"]*"`).ReplaceAllString(string(module), fmt.Sprintf("path = %q", rules))
	text = strings.Replace(text, `"//tools:all", `, "", 1)
	w.Write("MODULE.bazel", text+"\nbazel_dep(name = \"bazel_skylib\", version = \"1.7.1\")\n")
	return w
}

// modules returns the modules of a workspace that the rules bring.
func modules(t *testing.T, w *bazeltest.Workspace) []string {
	t.Helper()
	result := w.Bazel("mod", "graph", "--output=json", "--depth=10")
	type node struct {
		Name         string
		Dependencies []*node
	}
	var root node
	if err := json.Unmarshal([]byte(result.Stdout), &root); err != nil {
		t.Fatal(err)
	}
	var names []string
	var visit func(*node)
	visit = func(n *node) {
		for _, dep := range n.Dependencies {
			if !slices.Contains(names, dep.Name) {
				names = append(names, dep.Name)
			}
			visit(dep)
		}
	}
	visit(&root)
	slices.Sort(names)
	return names
}

// repositories returns the repositories that Bazel fetched.
func repositories(t *testing.T, w *bazeltest.Workspace) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(strings.TrimSpace(w.Bazel("info", "output_base").Stdout), "external"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".marker") {
			names = append(names, strings.ReplaceAll(entry.Name(), "+", "~"))
		}
	}
	return names
}

// noGo fails if Go, its rules or Gazelle are in a workspace.
func noGo(t *testing.T, w *bazeltest.Workspace) {
	t.Helper()
	all := modules(t, w)
	fetched := repositories(t, w)
	t.Logf("%d modules: %s", len(all), strings.Join(all, " "))
	t.Logf("%d repositories: %s", len(fetched), strings.Join(fetched, " "))
	for _, name := range all {
		if name == "rules_go" || name == "gazelle" {
			t.Errorf("the rules bring the module %s", name)
		}
	}
	for _, name := range fetched {
		if strings.HasPrefix(name, "rules_go") || strings.HasPrefix(name, "gazelle") || strings.HasSuffix(name, "~offload_native") {
			t.Errorf("a build fetched %s", name)
		}
	}
}

// inMany has bundles in several configurations: below offload_per_arch, and below a transition on
// user-defined settings.
var inMany = map[string]string{
	"BUILD.bazel": `load("@bazel_skylib//rules:common_settings.bzl", "string_flag")
load("@rules_offload//rules:defs.bzl", "hip_code_objects", "offload_bundle", "offload_per_arch")
load(":above.bzl", "below")

string_flag(name = "mine", build_setting_default = "")

hip_code_objects(name = "kernels", srcs = ["a.hip"], tags = ["manual"])

hip_code_objects(name = "one", srcs = ["a.hip"], offload_archs = ["gfx90a"])

offload_per_arch(name = "each", images = [":kernels"], offload_archs = ["gfx90a", "gfx942", "gfx1100"])

offload_bundle(name = "fat", images = [":each"])

offload_bundle(name = "fat_one", images = [":one"])

below(name = "below", deps = [":fat_one"])
`,
	"above.bzl": `def _above_impl(_settings, _attr):
    return {"//:mine": "x", "//command_line_option:copt": ["-DX"], "@rules_offload//rules/settings:compress": "zstd"}

_above = transition(
    implementation = _above_impl,
    inputs = [],
    outputs = ["//:mine", "//command_line_option:copt", "@rules_offload//rules/settings:compress"],
)

def _below_impl(ctx):
    return [DefaultInfo(files = depset(transitive = [dep[DefaultInfo].files for dep in ctx.attr.deps]))]

below = rule(
    implementation = _below_impl,
    attrs = {
        "deps": attr.label_list(cfg = _above),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
)
`,
	"a.hip": "__attribute__((global)) void a() {}\n",
}

// TestFromSource builds the program of a checkout: once for all targets and configurations, and
// without rules_go.
func TestFromSource(t *testing.T) {
	w := adopter(t, bazeltest.Sources(t), inMany)
	start := time.Now()
	w.Bazel("build", "//...")
	t.Logf("from source: %s to the first kernel", time.Since(start).Round(time.Second))
	noGo(t, w)
	programs := map[string]bool{}
	bundles := w.Commands(`mnemonic("OffloadBundle|Go.*", deps(set(//:fat //:fat_one //:below)))`)
	for _, command := range bundles {
		programs[command.Arguments[0]] = true
		if command.Mnemonic != "OffloadBundle" {
			t.Errorf("an action %s", command.Mnemonic)
		}
	}
	// fat, fat_one, and fat_one in the configuration of the transition
	if len(bundles) != 3 || len(programs) != 1 {
		t.Errorf("%d bundles are made by %d programs, want 3 by one: %v", len(bundles), len(programs), programs)
	}
	// The program for the target platform is the same file.
	if result := w.Bazel("run", "@rules_offload//rules/toolchain:program", "--", "--version"); !strings.HasPrefix(result.Stdout, "offload ") {
		t.Errorf("the program printed %q", result.Stdout)
	}
}

// TestRelease uses the module as a release has it: with the checksums of its
// programs.
func TestRelease(t *testing.T) {
	sources, rules := bazeltest.Sources(t), t.TempDir()
	// Remove the other directories: a release must build without the sources of the program.
	if err := os.CopyFS(filepath.Join(rules, "rules"), os.DirFS(filepath.Join(sources, "rules"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"BUILD.bazel", "MODULE.bazel"} {
		content, err := os.ReadFile(filepath.Join(sources, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(rules, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := adopter(t, rules, inMany)
	program := filepath.Join(w.Dir, "tools", "offload")
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(rules, "rules", "private", "release.bzl")
	text, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	programs := fmt.Sprintf("PROGRAMS = {\"linux-x86_64\": {\"sha256\": \"%x\", \"url\": \"file://%s\"}, \"linux-aarch64\": {\"sha256\": \"\", \"url\": \"file:///nowhere\"}}\n", sha256.Sum256(content), program)
	if !strings.Contains(string(text), "PROGRAMS = {}\n") {
		t.Fatalf("%s:\n%s", lock, text)
	}
	if err := os.WriteFile(lock, []byte(strings.Replace(string(text), "PROGRAMS = {}\n", programs, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	w.Bazel("build", "//...")
	t.Logf("release: %s to the first kernel", time.Since(start).Round(time.Second))
	noGo(t, w)
	for _, name := range repositories(t, w) {
		if strings.HasSuffix(name, "offload_program_linux_aarch64") {
			t.Errorf("the program of another platform was fetched")
		}
	}

	// With the tag, the build needs the sources of the program, which were removed above.
	module, err := os.ReadFile(filepath.Join(w.Dir, "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	w.Write("MODULE.bazel", string(module)+"offload.from_source()\n")
	if result, err := w.Try("build", "--nobuild", "//:fat"); err == nil || !strings.Contains(result.Output, "built_program") {
		t.Errorf("offload.from_source() without sources: %v\n%s", err, result.Output)
	}
}

// TestGazelle uses the extension from its own module.
func TestGazelle(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), map[string]string{"BUILD.bazel": ""})
	w.Module(fmt.Sprintf(`
bazel_dep(name = "gazelle", version = "0.47.0")
bazel_dep(name = "rules_offload_gazelle")
local_path_override(
    module_name = "rules_offload_gazelle",
    path = %q,
)
`, filepath.Join(bazeltest.Sources(t), "gazelle")))
	w.Write("BUILD.bazel", `load("@gazelle//:def.bzl", "gazelle")

gazelle(
    name = "gazelle",
    gazelle = "@rules_offload_gazelle//:gazelle_binary",
)
`)
	if result := w.Bazel("query", "@rules_offload_gazelle//:all"); !strings.Contains(result.Stdout, "//:gazelle_binary\n") {
		t.Errorf("no gazelle_binary in\n%s", result.Stdout)
	}
	if !*full {
		return
	}
	w.Write("kernels/scale.hip", "__global__ void scale(float *x) { *x *= 2; }\n")
	w.Bazel("run", "//:gazelle")
	content, err := os.ReadFile(filepath.Join(w.Dir, "kernels", "BUILD.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), "hip_code_objects(") {
		t.Errorf("Gazelle wrote\n%s", content)
	}
}
