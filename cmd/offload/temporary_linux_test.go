package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
	"github.com/rules-offload/rules_offload/internal/testing/workerproto"
	"github.com/rules-offload/rules_offload/internal/testing/workertest"
)

// slowProgram is a script for a program that, as itself and as its own child, keeps writing to TMPDIR. It
// creates the file started when it begins.
func slowProgram(started string) string {
	return `#!/bin/sh
case $* in *--version*|*-###*) exit 1;; esac
fill() { while sleep 0.002; do i=$((i+1)); mkdir "$TMPDIR/$1$i"; : >"$TMPDIR/$1$i/file"; done; }
: >'` + started + `'
fill a 2>/dev/null &
fill b 2>/dev/null
`
}

// Nothing is left in TMPDIR after SIGTERM, whenever it comes, of the process and of the programs that it runs.
func TestTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	tmp := filepath.Join(dir, "tmp")
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	started := filepath.Join(dir, "started")
	write("clang", slowProgram(started), 0o777)
	image := string(fixture.ELF(t, ".text", "code"))
	write("image", image, 0o666)
	if err := os.Mkdir(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"offload pack --output packed --image file=image,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=openmp",
		"offload embed --input image --output host.o packed",
	} {
		words := strings.Fields(args)
		cmd := program(t, dir, words[0], words[1:]...)
		if out, err := combined(cmd); err != nil {
			t.Fatalf("%s: %v %s", args, err, out)
		}
	}
	tidy := func() {
		t.Helper()
		left, err := os.ReadDir(tmp)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range left {
			t.Errorf("%s is left in TMPDIR", entry.Name())
			os.RemoveAll(filepath.Join(tmp, entry.Name()))
		}
	}
	command := func(args string) *exec.Cmd {
		words := strings.Fields(args)
		cmd := program(t, dir, words[0], words[1:]...)
		cmd.Env = append(cmd.Env, "TMPDIR="+tmp, "PATH="+dir+":"+os.Getenv("PATH"))
		return cmd
	}
	for _, args := range []string{
		"clang-linker-wrapper --host-triple=x86_64-unknown-linux-gnu --linker-path=/bin/true host.o -o out",
		"offload link --triple x86_64-unknown-linux-gnu --clang clang --output out.o host.o",
	} {
		t.Run(args, func(t *testing.T) {
			for i := range 9 {
				os.Remove(started)
				var stderr bytes.Buffer
				cmd := command(args)
				cmd.Stderr = &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if i%3 == 0 { // during the device link
					await(t, started, &stderr)
				} else {
					time.Sleep(time.Duration(i*i) * time.Millisecond)
				}
				for range 1 + i%2 {
					cmd.Process.Signal(syscall.SIGTERM)
				}
				if err := cmd.Wait(); err == nil {
					t.Fatal("exit code 0")
				}
				tidy()
			}
		})
	}
	t.Run("a reader that ends", func(t *testing.T) {
		cmd := command("clang-linker-wrapper --wrapper-verbose --host-triple=x86_64-unknown-linux-gnu --linker-path=/bin/true host.o -o out")
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		read.Close()
		cmd.Stderr = write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		write.Close()
		cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGPIPE {
			t.Errorf("got status %v, want the end by SIGPIPE", cmd.ProcessState)
		}
		tidy()
	})
	t.Run("worker", func(t *testing.T) {
		var pack []string
		for arch, flags := range map[string]uint32{"gfx1100": 0x41, "gfx1101": 0x46} {
			object := testelf.CodeObject{ABI: 3, Flags: flags, Kernels: []testelf.Kernel{{Name: "k", CodeSize: 8}}}
			write(arch, string(object.Build()), 0o666)
			pack = append(pack, "--entry", arch+"="+arch)
		}
		if out, err := combined(program(t, dir, "offload", append([]string{"bundle", "--output", "bundle"}, pack...)...)); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		os.Remove(started)
		cmd := command("offload --persistent_worker")
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = nil, &stderr
		client, err := workertest.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		go client.Do(t.Context(), &workerproto.WorkRequest{
			Arguments: strings.Fields("report --disassembler ./clang --json report.json bundle"),
			Inputs:    []*workerproto.Input{{Path: "bundle"}, {Path: "clang"}},
		})
		await(t, started, &stderr)
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		tidy()
	})
}

// combined runs a command and returns what it prints.
func combined(cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// await waits until a file exists.
func await(t *testing.T, name string, stderr *bytes.Buffer) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the program did not start: %s", stderr.String())
		}
	}
}

// A worker writes temporary files to TMPDIR.
func TestTemporaryDirectoryOfWorker(t *testing.T) {
	dir := t.TempDir()
	random := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{}).Read(random)
	if err := os.WriteFile(filepath.Join(dir, "image"), append([]byte("\x7fELF"), random...), 0o666); err != nil {
		t.Fatal(err)
	}
	for tmp, want := range map[string]int32{dir: 0, filepath.Join(dir, "missing"): 1} {
		cmd := program(t, dir, "offload", "--persistent_worker")
		cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
		cmd.Stdout = nil
		client, err := workertest.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(t.Context(), &workerproto.WorkRequest{
			Arguments: strings.Fields("bundle --compress --output /dev/null --entry gfx942=image"), Inputs: []*workerproto.Input{{Path: "image"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if response.ExitCode != want || want != 0 && !strings.Contains(response.Output, tmp) {
			t.Errorf("TMPDIR=%s: got exit code %d and %q, want %d", tmp, response.ExitCode, response.Output, want)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
