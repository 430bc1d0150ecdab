package compilation

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The compiler does not outlive a process that is killed.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := program(t, dir, `echo $$ > pid; mv pid ready; exec sleep 1000`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, filepath.Join(dir, "ready"))
	text, err := os.ReadFile(filepath.Join(dir, "ready"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	for range 6000 {
		// It may remain as a zombie if no process waits for it.
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	t.Error("the compiler still runs")
}
