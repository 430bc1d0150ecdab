package bundler

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/target"
)

// objcopy returns the llvm-objcopy that LLVM's tool would run: the one in the directory of the
// program, or else the one on PATH. -### prints it; nothing runs it.
func (r *run) objcopy() string {
	program := r.Name
	if _, err := os.Stat(program); err != nil {
		if program, err = os.Executable(); err != nil {
			program = r.Name
		}
	}
	if dir := filepath.Dir(program); dir != "." {
		if path, err := exec.LookPath(filepath.Join(dir, "llvm-objcopy")); err == nil {
			return path
		}
	}
	if path, err := exec.LookPath("llvm-objcopy"); err == nil {
		return path
	}
	return "llvm-objcopy"
}

// temporary is a placeholder for the name of the temporary file of LLVM's tool.
func (r *run) temporary() string {
	dir := "/tmp"
	if s, _ := r.LookupEnv("TMPDIR"); s != "" {
		dir = s
	}
	return strings.TrimSuffix(dir, "/") + "/clang-offload-bundler-000000.tmp"
}

// printAddSections prints the command that would add the entries to the host
// object.
func (r *run) printAddSections() {
	var args []string
	var host string
	for i, id := range r.ids {
		file, section := r.input.Value[i], bundle.SectionPrefix+id.String()
		if id.Kind == target.Host {
			host, file = file, r.temporary()
		}
		args = append(args, "--add-section="+section+"="+file, "--set-section-flags="+section+"=readonly,exclude")
	}
	r.printCommand(append(args, "--", host, r.output.Value[0]))
}

// printRemoveSections prints the command that would extract the host object from the input.
func (r *run) printRemoveSections(input string) {
	r.printCommand([]string{"--regex", "--remove-section=" + bundle.SectionPrefix + ".*", "--", input, r.temporary()})
}

func (r *run) printCommand(args []string) {
	fmt.Fprintf(r.Stderr, "\"%s\"", r.objcopy())
	for _, arg := range args {
		fmt.Fprintf(r.Stderr, " \"%s\"", arg)
	}
	fmt.Fprintln(r.Stderr)
}
