package main

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

var cuts = flag.Int("cuts", 1, "how often TestCutFiles runs each command")

// A mapped file that is cut short while a command reads it is an error of the command, whatever
// the moment: no signal ends the process.
func TestCutFiles(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	content := make([]byte, 3<<20)
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	image := append([]byte("\x7fELF"), content...)
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("image", image)
	for _, args := range []string{
		"bundle --output plain --entry gfx906=image --entry gfx942=image",
		"bundle --compress --output packed --entry gfx906=image --entry gfx942=image",
		"pack --output binary --image file=image,triple=amdgcn-amd-amdhsa,arch=gfx942",
	} {
		if err := program(t, dir, "offload", strings.Fields(args)...).Run(); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, data := range map[string]string{
		"plain": read("plain"), "packed": read("packed"), "binary": read("binary"), "image": string(image),
		"archive": string(fixture.Archive(t, "a", read("plain"), "b", read("packed"))),
		"many":    string(fixture.Archive(t, slicesOf(2000, "m", string(fixture.Bundle(t, "gfx906"))[:4096])...)),
		"object":  string(fixture.ELF(t, ".hip_fatbin", read("packed"), ".llvm.offloading:offloading", read("binary"))),
	} {
		for _, args := range []string{
			"offload list IN", "offload list --type a IN", "offload inspect IN", "offload inspect --kernels IN", "offload check --input IN",
			"offload unbundle --type bc --input IN --entry gfx942=out", "offload unbundle --type bc --verify --input IN --entry gfx942=-",
			"offload extract --image arch=gfx942,file=out IN", "offload bundle --compress --output out --entry gfx942=IN", "offload bundle --output out --entry gfx942=IN",
			"offload archive --output out IN", "offload unbundle-archive --input IN --entry gfx942=out",
			"offload prune --keep gfx942 --output out --input IN", "offload pack --output out --image file=IN,triple=amdgcn-amd-amdhsa",
			"offload register --kind hip --triple x86_64-unknown-linux-gnu --output out IN", "offload diff IN image", "offload check --covers gfx942 IN",
			"clang-offload-bundler -type=bc -unbundle -input=IN -output=out -targets=" + memoryID, "llvm-offload-binary IN --image=file=out,arch=gfx942",
		} {
			for range *cuts {
				write("in", []byte(data))
				words := strings.Fields(strings.ReplaceAll(args, "IN", "in"))
				cmd := program(t, dir, words[0], words[1:]...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				if err := os.Truncate(filepath.Join(dir, "in"), int64(r.IntN(len(data)))); err != nil {
					t.Fatal(err)
				}
				err := cmd.Wait()
				var exit *exec.ExitError
				if errors.As(err, &exit) && exit.ExitCode() != 1 || strings.Contains(stderr.String(), "goroutine") || strings.Contains(stderr.String(), "internal error") {
					t.Fatalf("%s of %s: %v: %.2000s", args, name, err, stderr.String())
				}
			}
		}
	}
}

// slicesOf returns n pairs of a name and a content.
func slicesOf(n int, name, content string) (pairs []string) {
	for range n {
		pairs = append(pairs, name, content)
	}
	return pairs
}
