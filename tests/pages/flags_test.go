package pages

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// otherFlags are flags of programs that the test machine does not have.
var otherFlags = map[string]string{
	"-supports-workers":           "removes an execution requirement, in --modify_execution_info",
	"-supports-multiplex-workers": "removes an execution requirement, in --modify_execution_info",
	"-top":                        "go tool pprof",
	"--tool":                      "valgrind",
	"-parallel-jobs":              "clang before 22",
	"--incompatible_bazel_test_exec_run_under":      "Bazel 9",
	"--incompatible_compact_repo_mapping_manifest":  "Bazel 9",
	"--incompatible_disable_autoloads_in_main_repo": "Bazel 9",
	"--incompatible_filegroup_runfiles_for_data":    "Bazel 9",
	"--incompatible_locations_prefers_executable":   "Bazel 9",
	"--incompatible_remove_ctx_py_fragment":         "Bazel 9",
	"--incompatible_repo_env_ignores_action_env":    "Bazel 9",
	"--incompatible_target_cpu_from_platform":       "Bazel 9",
	"--incompatible_use_new_cgroup_implementation":  "Bazel 9",
	"--genco":                       "hipcc",
	"--find-links":                  "pip",
	"--link-mode":                   "uv",
	"-mode":                         "Gazelle",
	"-ptx":                          "nvcc",
	"-i":                            "xxd",
	"-hh":                           "an example of a mistake",
	"--offload-":                    "the beginning of flags",
	"--tag":                         "tools/offline/rocm",
	"--quick":                       "tools/offline/check",
	"--persistent_worker":           "what Bazel adds to the command of a worker",
	"-libpath":                      "lld-link",
	"-nogpuinc":                     "clang, which does not complete it",
	"-nogpulib":                     "clang, which does not complete it",
	"-debug-only":                   "LLVM's tools, if built with assertions",
	"-fno-canonical-system-headers": "GCC",
	"-wholearchive":                 "lld-link",
}

// namedFlag matches a flag in code: after a space, a quote or the end of another word.
var namedFlag = regexp.MustCompile(`(?:^|[\s="'|(])(--?[a-zA-Z][\w-]*)`)

// TestFlags looks up the flags that the pages name in the help of all programs: offload, LLVM's
// tools, clang, lld, Bazel, Go, and programs of this repository.
func TestFlags(t *testing.T) {
	project, all := read(t)
	known := map[string]bool{}
	add := func(text string, pattern string) {
		t.Helper()
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("no flag in %.200q", text)
		}
		for _, m := range found {
			known[strings.TrimLeft(m[1], "-")] = true
		}
	}
	print := func(program string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = project
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v", program, args, err)
		}
		return string(out)
	}
	const inHelp = `(?m)(?:^|[\s,=\[])(--?[a-zA-Z][\w-]*)`
	for _, verb := range regexp.MustCompile(`(?m)^  ([a-z-]+(?: [a-z]+)?)  +[A-Z]`).FindAllStringSubmatch(helpOf(t, ""), -1) {
		if help := helpOf(t, verb[1]); strings.Contains(help, "\nFlags:") {
			add(help, inHelp)
		}
	}
	add(helpOf(t, ""), inHelp)
	for _, name := range []string{"clang-offload-bundler", "llvm-offload-binary", "clang-linker-wrapper", "llvm-offload-wrapper"} {
		add(print(llvm.Tool(t, name), "--help-hidden"), inHelp)
	}
	for _, name := range []string{"ld.lld", "llvm-objcopy", "llvm-readelf", "llvm-objdump"} {
		add(print(llvm.Tool(t, name), "--help"), inHelp)
	}
	clang := llvm.Tool(t, "clang")
	add(print(clang, "--autocomplete=-"), `(?m)^(--?[^\s=]+)`)
	add(print(clang, "--autocomplete=-cc1,-"), `(?m)^(--?[^\s=]+)`)
	add(print(filepath.Join(project, "bazelw"), "help", "completion"), `(?m)^--(?:no)?([a-z]\w+)`)
	add(print("go", "help", "testflag"), `(?m)^\t(-\w+)`)
	add(print("go", "help", "test"), `(?m)^\t(-\w+)`)
	add(print("go", "help", "build"), `(?m)^\t(-\w+)`)
	err := filepath.WalkDir(project, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`\.(?:Bool|Duration|Float64|Int|Int64|Uint64|String)(?:Var)?\((?:&[\w.]+, )?"([\w-]+)"`).FindAllSubmatch(content, -1) {
			known[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The values of these flags follow without a space.
	joined := regexp.MustCompile(`^-(?:[DILOUWl]|Wl|mllvm|m|test)`)
	flags := 0
	for _, p := range all {
		for i, line := range p.prose() {
			for _, c := range code.FindAllStringSubmatch(line, -1) {
				for _, m := range namedFlag.FindAllStringSubmatch(c[1], -1) {
					flags++
					name := strings.TrimLeft(m[1], "-")
					if !known[name] && !known[strings.TrimPrefix(name, "no")] && otherFlags[m[1]] == "" && !joined.MatchString(m[1]) {
						t.Errorf("%s:%d: %s: no program has this flag", p.path, i+1, m[1])
					}
				}
			}
		}
	}
	if flags < 400 {
		t.Errorf("%d flags on all pages, expected more", flags)
	}
}
