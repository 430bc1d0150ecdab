// Package packagers runs the tools with which packages are made and installed: patchelf, pip and others, which it
// gets from Debian.
package packagers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/root"
)

// Dir returns the directory with the tools, in which usr is as in Debian. The first call fetches them.
var Dir = sync.OnceValues(func() (string, error) {
	project, err := root.Project()
	if err != nil {
		return "", err
	}
	fetch := exec.Command(filepath.Join(project, "tools", "offline", "packagers"))
	fetch.Stderr = os.Stderr
	out, err := fetch.Output()
	return strings.TrimSpace(string(out)), err
})

// Command returns a command that runs a tool in a directory. A name that is not an absolute path is that of a
// program of Debian.
func Command(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	tools, err := Dir()
	if err != nil {
		t.Fatalf("the tools of packagers are needed: %v", err)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(tools, "usr/bin", name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(tools, "usr/lib/x86_64-linux-gnu"))
	return cmd
}

// Pip runs pip, which Debian has as a wheel, in a directory, and fails the test if pip fails.
func Pip(t *testing.T, dir string, args ...string) {
	t.Helper()
	tools, err := Dir()
	if err != nil {
		t.Fatalf("the tools of packagers are needed: %v", err)
	}
	found, err := filepath.Glob(filepath.Join(tools, "usr/share/python-wheels/pip-*.whl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("pip: %v, %v", found, err)
	}
	cmd := exec.Command("python3", append([]string{found[0] + "/pip", "--no-cache-dir", "--disable-pip-version-check"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if cert := os.Getenv("SSL_CERT_FILE"); cert != "" {
		cmd.Env = append(cmd.Env, "PIP_CERT="+cert) // that of the machine can be a file that the root does not have
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
