package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bazelbuild/buildtools/build"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// A workspace is where the tests follow pages: the directory hello next to rules_offload, as in the
// tutorial. All pages use one Bazel server, one after another.
type workspace struct {
	project, dir, bin string
}

const (
	moduleFile = `bazel_dep(name = "rules_cc", version = "0.0.17")
bazel_dep(name = "rules_offload", version = "0.1.0")
local_path_override(
    module_name = "rules_offload",
    path = "../rules_offload",
)

`
	compiler = `offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
use_repo(offload, "offload_native", "offload_system_clang")
register_toolchains("@offload_system_clang//:all")
`
	settings = `common --flag_alias=hip_runtime=@rules_offload//rules/settings:hip_runtime
common --flag_alias=offload_archs=@rules_offload//rules/settings:offload_archs
common --flag_alias=openmp_runtime=@rules_offload//rules/settings:openmp_runtime
build --hip_runtime=//runtime
build --offload_archs=gfx90a
build --openmp_runtime=@offload_system_clang//:openmp_runtime
`
	// wrapper is a script that calls bazelw with a program that is already built, and without
	// progress.
	wrapper = `#!/usr/bin/env bash
command=$1
shift
case $command in
    build | run | test | cquery | query) set -- --extra_toolchains=//prebuilt:all --color=no --curses=no --noshow_progress --ui_event_filters=-debug "$@" ;;
esac
mkdir -p prebuilt
cp -n %[2]q/* prebuilt/ 2>/dev/null
%[1]q/bazelw --host_jvm_args=-Xmx1500m "$command" "$@" 2>&1 | grep --line-buffered -v -e '^INFO: Invocation ID' -e '^Starting local Bazel' -e 'Running Bazel server needs' -e 'Multiplexer process for'
exit "${PIPESTATUS[0]}"
`
)

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	project, _ := read(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &workspace{project: project, dir: filepath.Join(top, "hello"), bin: filepath.Join(top, "bin")}
	prebuilt := filepath.Join(top, "prebuilt")
	for _, dir := range []string{w.bin, prebuilt, filepath.Join(top, "rules_offload")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(llvm.Offload(t))
	if err != nil {
		t.Fatal(err)
	}
	run := fmt.Sprintf(wrapper, project, prebuilt)
	w.write(t, prebuilt, "offload", string(content))
	w.write(t, prebuilt, "BUILD.bazel", bazeltest.ToolchainFile)
	w.write(t, w.bin, "bazel", run)
	w.write(t, w.bin, "offload", string(content))
	entries, err := os.ReadDir(project)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "bazelw" && name != ".git" && !strings.HasPrefix(name, "bazel-") {
			if err := os.Symlink(filepath.Join(project, name), filepath.Join(top, "rules_offload", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.write(t, filepath.Join(top, "rules_offload"), "bazelw", run)
	t.Cleanup(func() {
		w.empty(t)
		cmd := exec.Command(filepath.Join(w.bin, "bazel"), "clean", "--expunge")
		cmd.Dir = w.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("clean: %v\n%s", err, out)
		}
	})
	return w
}

// write writes an executable file.
func (w *workspace) write(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// empty deletes the files of the last page. The stand-in for HIP's runtime and the module stay.
func (w *workspace) empty(t *testing.T) {
	t.Helper()
	entries, _ := os.ReadDir(w.dir)
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(w.dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	w.write(t, w.dir, "MODULE.bazel", moduleFile+compiler)
	w.write(t, w.dir, ".bazelrc", settings)
	if err := os.CopyFS(filepath.Join(w.dir, "runtime"), os.DirFS(filepath.Join(w.project, "examples/hip_kernels/runtime"))); err != nil {
		t.Fatal(err)
	}
}

// kind returns the kind of file that a Starlark block is: "BUILD.bazel", "MODULE.bazel", or another
// file.
func (b *block) kind() string {
	switch {
	case b.language != "starlark" || b.excuse != "" || signature(b):
		return ""
	case b.file != "":
		return strings.TrimPrefix(b.file, "+")
	case regexp.MustCompile(`(?m)^(bazel_dep|use_repo|register_toolchains|offload\.|offload = )`).MatchString(b.text):
		return "MODULE.bazel"
	}
	if regexp.MustCompile(`(?m)^def `).MatchString(b.text) {
		return fmt.Sprintf("line%d.bzl", b.line)
	}
	return "BUILD.bazel"
}

// TestTutorial follows the tutorial from an empty directory.
func TestTutorial(t *testing.T) {
	w := newWorkspace(t)
	_, all := read(t)
	for _, p := range all {
		if p.path != "docs/tutorial.md" {
			continue
		}
		var steps []step
		for _, b := range p.blocks {
			steps = append(steps, b.steps()...)
		}
		if len(steps) < 15 {
			t.Errorf("%d steps, expected more", len(steps))
		}
		play(t, filepath.Dir(w.dir), environment(t, w.bin), steps)
	}
	play(t, w.dir, environment(t, w.bin), []step{{block: all[0].blocks[0], command: "bazel build //:device_code --output_groups=labels,json\n"}})
	schema := schemas(t)
	for file, name := range map[string]string{"kernels.hipfb.entries.json": "entries", "device_code.json": "labels", "device_code.kernels.json": "report"} {
		content, err := os.ReadFile(filepath.Join(w.dir, "bazel-bin", file))
		if err != nil {
			t.Error(err)
			continue
		}
		conform(t, schema, name, content)
	}
}

// TestModules evaluates each MODULE.bazel block, with the toolchains that it registers.
func TestModules(t *testing.T) {
	w := newWorkspace(t)
	_, all := read(t)
	for _, p := range all {
		for _, b := range p.blocks {
			if b.kind() != "MODULE.bazel" || p.path == "docs/tutorial.md" {
				continue
			}
			t.Run(b.String(), func(t *testing.T) {
				w.empty(t)
				text := b.text
				if !strings.Contains(text, "use_extension") {
					text = "offload = use_extension(\"@rules_offload//rules:extensions.bzl\", \"offload\")\n" + text
				}
				if strings.Contains(text, `module_name = "rules_offload"`) {
					t.Fatalf("%s names the source of the module: expected <!-- not run: REASON -->", b)
				}
				w.write(t, w.dir, "MODULE.bazel", moduleFile+text)
				w.write(t, w.dir, ".bazelrc", "")
				// Bazel loads all registered toolchains for it, and would download a compiler from
				// an archive.
				w.write(t, w.dir, "BUILD.bazel", `load("@rules_offload//rules:bundle.bzl", "offload_bundle", "offload_images")

offload_images(
    name = "images",
    srcs = {"k.co": "gfx90a"},
)

offload_bundle(
    name = "k",
    images = [":images"],
)
`)
				w.write(t, w.dir, "k.co", "")
				play(t, w.dir, environment(t, w.bin), []step{{block: b, command: "bazel build --nobuild //:k\n"}})
			})
		}
	}
}

// TestBuild writes the BUILD files of each page, with sources for them, builds all targets, and runs the commands.
func TestBuild(t *testing.T) {
	w := newWorkspace(t)
	project, all := read(t)
	attributes := documented(all)
	for _, p := range all {
		if p.path == "docs/tutorial.md" || strings.HasPrefix(p.path, "examples/") || !needsBazel(p) {
			continue
		}
		t.Run(p.path, func(t *testing.T) {
			w.empty(t)
			if !strings.HasPrefix(p.path, "docs/rules/") { // their examples have libraries for other GPUs, see stubs
				libraries(t, project, w.dir)
			}
			objects(t, project, w.dir)
			var steps []step
			f := &buildFiles{t: t, w: w, known: attributes}
			for _, b := range p.blocks {
				switch kind := b.kind(); {
				case kind == "BUILD.bazel":
					f.add(b)
				case kind != "" && kind != "MODULE.bazel" || b.language == "bazelrc" && b.excuse == "":
					name := kind
					if name == "" {
						name = ".bazelrc.page"
					}
					w.write(t, w.dir, name, b.text)
					if strings.HasSuffix(name, ".bzl") { // evaluated by a package that loads it
						w.write(t, w.dir, name, b.text+"\nloaded = True\n")
						w.write(t, w.dir, fmt.Sprintf("bzl%d/BUILD.bazel", b.line), fmt.Sprintf("load(%q, \"loaded\")\n", "//:"+name))
						w.write(t, w.dir, "BUILD.bazel", "")
						f.targets++
					}
					if name == ".bazelrc.page" {
						steps = append(steps, step{block: b, command: "bazel --bazelrc=.bazelrc.page info release > info.txt\n"})
					}
				case b.language == "console" || b.language == "sh":
					steps = append(steps, b.steps()...)
				}
			}
			f.write()
			if f.targets > 0 {
				steps = slices.Insert(steps, 0, step{block: p.blocks[0], command: "bazel build --keep_going --build_tag_filters=-manual //...\n"})
			}
			dir := w.dir
			if p.path == "README.md" { // its commands build the program
				play(t, copyOf(t, project), environment(t, w.bin), slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return strings.Contains(s.command, "bazel") }))
				steps = slices.DeleteFunc(steps, func(s step) bool { return !strings.Contains(s.command, "bazel") })
			}
			play(t, dir, environment(t, w.bin), steps)
		})
	}
}

// buildFiles are the BUILD files of a page: blocks that define other targets are in one package.
type buildFiles struct {
	t       *testing.T
	w       *workspace
	known   map[string][]string
	targets int
	last    *buildFile
	all     []*buildFile
}

type buildFile struct {
	pkg     string
	text    strings.Builder
	defined map[string]bool
	parsed  []*build.File
}

// add adds a block to the package of the last block, or to a new package if a target would exist twice.
func (f *buildFiles) add(b *block) {
	parsed, err := build.ParseBuild(b.String(), []byte(b.text))
	if err != nil {
		f.t.Errorf("%s: %v", b, err)
		return
	}
	names := map[string]bool{}
	for _, rule := range parsed.Rules("") {
		names[rule.Name()] = rule.Name() != ""
	}
	clash := f.last == nil
	for name := range names {
		clash = clash || f.last.defined[name]
	}
	if clash {
		pkg := ""
		if len(f.all) > 0 {
			pkg = fmt.Sprintf("line%d", b.line)
		}
		f.last = &buildFile{pkg: pkg, defined: map[string]bool{}}
		f.all = append(f.all, f.last)
	}
	for name := range names {
		f.last.defined[name] = true
	}
	f.last.text.WriteString(b.text)
	f.last.parsed = append(f.last.parsed, parsed)
	f.targets += len(names)
}

// write writes the packages, with targets and sources that the blocks name and do not define.
func (f *buildFiles) write() {
	for _, file := range f.all {
		var head, tail strings.Builder
		loaded, called := map[string]bool{}, map[string]bool{}
		s := &stubs{f: f, file: file, text: &tail}
		for _, parsed := range file.parsed {
			build.Walk(parsed, func(e build.Expr, _ []build.Expr) {
				switch e := e.(type) {
				case *build.LoadStmt:
					for _, to := range e.To {
						loaded[to.Name] = true
					}
				case *build.CallExpr:
					if name, ok := e.X.(*build.Ident); ok {
						called[name.Name] = true
						s.call(name.Name, e)
					}
				}
			})
		}
		for _, name := range []string{"hip_library", "hip_code_objects", "offload_bundle", "offload_binary", "offload_archive", "openmp_library"} {
			if strings.Contains(tail.String(), name+"(") {
				called[name] = true
			}
		}
		for name := range called {
			if from := provider(name, f.known); from != "" && !loaded[name] {
				fmt.Fprintf(&head, "load(%q, %q)\n", from, name)
			}
		}
		f.w.write(f.t, f.w.dir, path.Join(file.pkg, "BUILD.bazel"), head.String()+file.text.String()+tail.String())
	}
}

// provider returns the file that defines a rule or macro, or "" for rules of Bazel.
func provider(name string, known map[string][]string) string {
	switch {
	case name == "cc_shared_library" || name == "cc_import" || name == "cc_library" || name == "cc_binary" || name == "cc_test":
		return "@rules_cc//cc:defs.bzl"
	case name == "device_toolchain" || strings.HasPrefix(name, "offload_") && strings.HasSuffix(name, "_toolchain"):
		return "@rules_offload//rules:toolchains.bzl"
	case strings.HasPrefix(name, "if_") || strings.HasPrefix(name, "requires_"):
		return "@rules_offload//rules:defs.bzl"
	case len(known[name]) > 0:
		return "@rules_offload//rules:defs.bzl"
	}
	return ""
}

// stubs writes the targets and files that a package names and does not define.
type stubs struct {
	f    *buildFiles
	file *buildFile
	text *strings.Builder
}

// call handles the labels in a call of a rule.
func (s *stubs) call(rule string, call *build.CallExpr) {
	for _, argument := range call.List {
		set, ok := argument.(*build.AssignExpr)
		if !ok {
			continue
		}
		attribute := build.FormatString(set.LHS)
		if attribute == "name" || attribute == "out" || attribute == "outs" || attribute == "cmd" {
			continue
		}
		build.Walk(set.RHS, func(e build.Expr, stack []build.Expr) {
			if text, ok := e.(*build.StringExpr); ok {
				s.label(rule, attribute, text.Value)
			}
		})
	}
}

var sourceName = regexp.MustCompile(`^[\w./-]+\.(hip|cu|cc|cpp|c|cl|ll|s|S|h|hpp|co|bc|o|a|so|txt|sh)$`)

// label makes the target or the file of a label in the package.
func (s *stubs) label(rule, attribute, label string) {
	name, local := strings.CutPrefix(label, ":")
	switch {
	case local && !s.file.defined[name] && !strings.Contains(name, "."):
		s.file.defined[name] = true
		fmt.Fprintf(s.text, "\n%s\n", s.target(rule, attribute, name))
	case (attribute == "deps" || attribute == "device_deps") && strings.HasPrefix(label, "//") && !strings.HasPrefix(label, "//runtime"):
		pkg, target, found := strings.Cut(label[2:], ":")
		if !found {
			target = path.Base(pkg)
		}
		s.f.w.write(s.f.t, s.f.w.dir, path.Join(pkg, "BUILD.bazel"), fmt.Sprintf("load(%q, \"cc_library\")\n\ncc_library(\n    name = %q,\n    visibility = [\"//visibility:public\"],\n)\n", "@rules_cc//cc:defs.bzl", target))
	case strings.HasPrefix(label, "bin/"):
		s.f.w.write(s.f.t, s.f.w.dir, path.Join(s.file.pkg, label), "#!/bin/sh\n")
	case sourceName.MatchString(name) && !s.file.defined[name]:
		s.source(rule, name)
	}
}

const stubArchs = `["gfx90a", "gfx942", "gfx1100"]`

// target returns a target for an attribute of a rule.
func (s *stubs) target(rule, attribute, name string) string {
	library := func(more string) string {
		s.source("hip_library", name+"_stub.hip")
		return fmt.Sprintf("hip_library(name = %q, srcs = [%q], offload_archs = %s%s)", name, name+"_stub.hip", stubArchs, more)
	}
	images := func(name string) string {
		s.source("hip_code_objects", name+"_stub.hip")
		return fmt.Sprintf("hip_code_objects(name = %q, srcs = [%q], offload_archs = %s)", name, name+"_stub.hip", stubArchs)
	}
	switch {
	case rule == "hip_device_link":
		return library(", rdc = True, device_link = False")
	case attribute == "device_deps":
		return library(", rdc = True")
	case rule == "offload_embed":
		return images(name+"_images") + fmt.Sprintf("\noffload_binary(name = %q, images = [%q])", name, name+"_images")
	case attribute == "images":
		return images(name)
	case rule == "offload_unbundle" && strings.Contains(name, "library"):
		return images(name+"_images") + fmt.Sprintf("\noffload_bundle(name = %q, images = [%q])\noffload_archive(name = %q, bundles = [%q])", name+"_bundle", name+"_images", name, name+"_bundle")
	case rule == "offload_unbundle" || rule == "offload_archive" || rule == "offload_cc_data" || rule == "offload_register":
		return images(name+"_images") + fmt.Sprintf("\noffload_bundle(name = %q, images = [%q])", name, name+"_images")
	}
	return library("")
}

// standIn declares the parts of HIP that clang requires to compile host code with kernels.
const standIn = `struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, decltype(sizeof(0)), void *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, decltype(sizeof(0)) *, void **);
`

// source writes a source file, unless it exists.
func (s *stubs) source(rule, name string) {
	file := path.Join(s.file.pkg, name)
	if _, err := os.Stat(filepath.Join(s.f.w.dir, file)); err == nil {
		return
	}
	stem := regexp.MustCompile(`\W`).ReplaceAllString(strings.TrimSuffix(name, path.Ext(name)), "_")
	program := strings.HasPrefix(stem, "main") || strings.HasSuffix(stem, "_main") || strings.HasSuffix(stem, "_test") || rule == "cc_binary" || rule == "cc_test"
	content := ""
	switch ext := path.Ext(name); ext {
	case ".hip", ".cu", ".cpp":
		content = standIn + fmt.Sprintf("__attribute__((global)) void kernel_%s() {}\n", stem)
		if ext == ".cu" {
			content = fmt.Sprintf("__attribute__((global)) void kernel_%s() {}\n", stem)
		}
		if program {
			content += "int main() { return 0; }\n"
		}
	case ".cc":
		content = fmt.Sprintf("int function_%s() { return 0; }\n", stem)
		if program {
			content += "int main() { return 0; }\n"
		}
	case ".c":
		content = fmt.Sprintf("int function_%s(void) { return 0; }\n", stem)
	case ".ll":
		content = fmt.Sprintf("define i32 @function_%s() {\n  ret i32 0\n}\n", stem)
	case ".co":
		for _, arch := range []string{"gfx90a", "gfx942", "gfx1100"} {
			if strings.Contains(name, arch) {
				from, err := os.ReadFile(filepath.Join(s.f.w.dir, arch+".co"))
				if err != nil {
					s.f.t.Fatal(err)
				}
				content = string(from)
			}
		}
	case ".bc":
		content = s.compile("--target=amdgcn-amd-amdhsa", "-nogpulib", "-emit-llvm", "-c", "-x", "c", "/dev/null")
	case ".o":
		content = s.compile("-c", "-x", "c", "/dev/null")
	case ".a": // a fat object of clang, in an archive
		s.compile("-c", "-x", "hip", "-nogpuinc", "-nogpulib", "--offload-new-driver", "-fgpu-rdc", "--offload-arch=gfx942", "-I"+s.headers(), s.math())
		archive := filepath.Join(s.f.w.dir, "stub.a")
		os.Remove(archive)
		if out, err := exec.Command(llvm.Tool(s.f.t, "llvm-ar"), "rcs", archive, filepath.Join(s.f.w.dir, "stub.out")).CombinedOutput(); err != nil {
			s.f.t.Fatalf("%v\n%s", err, out)
		}
		from, err := os.ReadFile(archive)
		if err != nil {
			s.f.t.Fatal(err)
		}
		content = string(from)
	case ".so":
		s.compile("-c", "-x", "hip", "-nogpuinc", "-nogpulib", "--no-offload-new-driver", "--offload-arch=gfx90a", "--offload-arch=gfx942", "--offload-arch=gfx1100", "-fPIC", "-I"+s.headers(), s.math())
		if err := os.Rename(filepath.Join(s.f.w.dir, "stub.out"), filepath.Join(s.f.w.dir, "stub.o")); err != nil {
			s.f.t.Fatal(err)
		}
		content = s.compile("-shared", "-fuse-ld=lld", "stub.o")
	}
	s.f.w.write(s.f.t, s.f.w.dir, file, content)
}

// compile runs clang++ in the workspace, and returns its output, which is also in stub.out.
func (s *stubs) compile(args ...string) string {
	cmd := exec.Command(llvm.Tool(s.f.t, "clang++"), append(args, "-o", "stub.out")...)
	cmd.Dir = s.f.w.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		s.f.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	content, err := os.ReadFile(filepath.Join(s.f.w.dir, "stub.out"))
	if err != nil {
		s.f.t.Fatal(err)
	}
	return string(content)
}

func (s *stubs) headers() string { return filepath.Join(s.f.w.project, "examples/hip_kernels/runtime") }
func (s *stubs) math() string    { return filepath.Join(s.f.w.project, "tests/pages/program/math.hip") }
