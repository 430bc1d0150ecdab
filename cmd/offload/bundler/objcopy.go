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

// objcopy returns the llvm-objcopy that LLVM's tool would run: the one beside
// the program, else the one on PATH. It is for -### alone, nothing is run.
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

// temporary stands for the name of the temporary file that LLVM's tool would
// make.
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

// printRemoveSections prints the command that would take the host object out of
// the input.
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
