// Package adopter checks what the module brings into the workspace of a user of
// the rules: the Go modules of the program, and none of those of tests, of the
// benchmarks or of the Gazelle extension.
package adopter

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bazelbuild/buildtools/build"
	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

var full = flag.Bool("full", false, "build the Gazelle extension from its own module, which compiles Gazelle")

func TestMain(m *testing.M) {
	flag.Parse()
	llvm.Main(m)
}

// program has the Go modules that the program is compiled of.
var program = []string{
	"github.com/cespare/xxhash/v2",
	"github.com/ianlancetaylor/demangle",
	"github.com/klauspost/compress",
	"github.com/philhofer/fwd",
	"github.com/tinylib/msgp",
	"github.com/zeebo/xxh3",
	"go.yaml.in/yaml/v3",
	"golang.org/x/sync",
	"golang.org/x/sys",
	"google.golang.org/protobuf",
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

// TestVersions checks that the MODULE.bazel files have the versions and sums of
// go.mod and go.sum, which Go updates.
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
	for _, file := range []*build.File{root, gazelle} {
		for path, module := range goModules(t, file) {
			if !regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(path+" "+module.Version) + `( |$)`).MatchString(goMod) {
				t.Errorf("%s: go.mod does not require %s %s", file.Path, path, module.Version)
			}
			if line := path + " " + module.Version + " " + module.Sum + "\n"; !strings.Contains(goSum, line) {
				t.Errorf("%s: go.sum has no line %q", file.Path, line)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(goModules(t, root))); !slices.Equal(got, program) {
		t.Error(cmp.Diff(program, got))
	}

	language := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(goMod)
	for _, rule := range gazelle.Rules("go_sdk.download") {
		if version := rule.AttrString("version"); language == nil || version != language[1] {
			t.Errorf("gazelle/MODULE.bazel: Go %s, go.mod has %q", version, language)
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

// TestRules asks Bazel, in a workspace with the rules, which Go modules they
// bring.
func TestRules(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), map[string]string{"BUILD.bazel": ""})
	result := w.Bazel("mod", "show_extension", "gazelle//:extensions.bzl%go_deps", "--extension_usages=rules_offload")
	_, usage, ok := strings.Cut(result.Stdout, "## Usage in rules_offload@")
	if !ok {
		t.Fatalf("no usage by rules_offload in\n%s", result.Stdout)
	}
	var got []string
	for _, match := range regexp.MustCompile(`go_deps\.module\(.*path="([^"]+)"`).FindAllStringSubmatch(usage, -1) {
		got = append(got, match[1])
	}
	slices.Sort(got)
	if !slices.Equal(got, program) {
		t.Error(cmp.Diff(program, got))
	}
	if strings.Contains(usage, "from_file") {
		t.Errorf("the rules bring their go.mod:\n%s", usage)
	}
}

// TestGazelle uses the extension from its own module.
func TestGazelle(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), map[string]string{"BUILD.bazel": ""})
	module, err := os.ReadFile(filepath.Join(w.Dir, "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	w.Write("MODULE.bazel", string(module)+fmt.Sprintf(`
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
