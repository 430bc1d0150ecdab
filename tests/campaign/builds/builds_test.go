// Package builds disturbs Bazel in the middle of builds: it kills workers, fills the disk and ends
// remote execution. The next build must be right and build only what is missing.
package builds

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/reapi"
)

func TestMain(m *testing.M) { llvm.Main(m) }

var rounds = flag.Int("rounds", 2, "how many builds each test disturbs")

// maxKills is the number of times that the workers of a build are killed.
const maxKills = 4

// bundles is the number of bundles in a build, and imageSize the size of the image of the first
// one, in bytes.
const bundles, imageSize = 40, 100 << 10

// site is a workspace whose bundles have an image that changes from build to build.
type site struct {
	*bazeltest.Workspace
	t     *testing.T
	image []byte
	flags []string
}

func newSite(t *testing.T, flags ...string) *site {
	s := &site{t: t, flags: append([]string{"//...", "--@rules_offload//rules/settings:validation=false"}, flags...)}
	s.Workspace = bazeltest.New(t, t.TempDir(), map[string]string{
		"image": "",
		"BUILD.bazel": `load("@rules_offload//rules:defs.bzl", "offload_bundle", "offload_images")
offload_images(name = "images", srcs = {"image": "gfx942"})
[offload_bundle(name = "fat%d" % i, images = [":images"], alignment = 4096 + i) for i in range(` + strconv.Itoa(bundles) + `)]
`,
	})
	return s
}

// change gives all bundles a new image. It is larger than the previous one, because Bazel
// deletes old outputs first, which would leave enough space on a full disk.
func (s *site) change(round int) {
	r := rand.New(rand.NewPCG(uint64(round), 18))
	s.image = make([]byte, imageSize*(1+round))
	for i := range s.image {
		s.image[i] = byte(r.Uint32())
	}
	s.Write("image", string(s.image))
}

// complete returns the number of bundles with the image, and fails the test for a new bundle that
// is wrong.
func (s *site) complete() (n int) {
	for i := range bundles {
		data, err := os.ReadFile(filepath.Join(s.Dir, "bazel-bin", fmt.Sprintf("fat%d.hipfb", i)))
		if err != nil || !bytes.Contains(data, s.image[:1000]) {
			continue
		}
		n++
		result := check.Bundle(data, check.Options{})
		if result.Problems != nil || !bytes.Contains(data, s.image) {
			s.t.Errorf("bundle %d has the new image and is damaged: %v", i, result.Problems)
		}
	}
	return n
}

// recover completes a disturbed build, and checks that another build has nothing to do.
func (s *site) recover(before int, flags ...string) {
	s.t.Helper()
	build := append([]string{"build"}, append(s.flags, flags...)...)
	made := s.Bazel(build...).Count("OffloadBundle")
	if made > bundles-before {
		s.t.Errorf("%d bundles were there, and %d of %d were made again", before, made, bundles)
	}
	if n := s.complete(); n != bundles {
		s.t.Errorf("%d of %d bundles are right", n, bundles)
	}
	if made := s.Bazel(build...).Count(""); made != 0 {
		s.t.Errorf("%d actions of a build without changes", made)
	}
	s.t.Logf("%d bundles were complete, %d were made then", before, made)
}

// workers returns the processes of workers whose working directory is below a directory.
func workers(below string) (ids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		line, _ := os.ReadFile(name)
		dir, _ := os.Readlink(filepath.Join(filepath.Dir(name), "cwd"))
		if id, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && bytes.Contains(line, []byte("--persistent_worker")) && strings.HasPrefix(dir, below+"/") {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestKilledWorkers(t *testing.T) {
	s := newSite(t, "--strategy=OffloadBundle=worker")
	base := strings.TrimSpace(s.Bazel("info", "output_base").Stdout)
	s.change(0)
	s.recover(0) // the first build starts the server
	kills := 0
	for round := range *rounds {
		s.change(round + 1)
		r := rand.New(rand.NewPCG(uint64(round), 1))
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			// The number of kills is limited: a build whose workers are always killed never ends.
			for range maxKills {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(200+r.IntN(500)) * time.Millisecond):
				}
				for _, id := range workers(base) {
					if syscall.Kill(id, syscall.SIGKILL) == nil {
						kills++
					}
				}
			}
		}()
		_, err := s.Try(append([]string{"build", "--keep_going"}, s.flags...)...)
		close(stop)
		<-stopped
		t.Logf("round %d: %d kills so far, the build fails: %t", round, kills, err != nil)
		s.recover(s.complete())
	}
	if kills == 0 {
		t.Error("no worker was killed")
	}
}

func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=2g"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	s := newSite(t, "--strategy=OffloadBundle=worker", "--experimental_writable_outputs")
	base := filepath.Join(disk, "base")
	s.Startup("--output_base=" + base)
	s.change(0)
	s.recover(0)
	for round := range *rounds {
		s.change(round + 1)
		filler := filepath.Join(disk, "filler")
		if err := fill(filler, imageSize*(1+int64(round)*5)); err != nil {
			t.Fatal(err)
		}
		_, err := s.Try(append([]string{"build", "--keep_going"}, s.flags...)...)
		if err == nil {
			t.Error("the build does not fail on a full disk")
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		before := s.complete()
		if before == bundles {
			t.Error("all bundles were made on a full disk")
		}
		s.recover(before)
		left, err := filepath.Glob(filepath.Join(base, "execroot/*/bazel-out/*/bin/.offload-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	}
}

// fill writes a file that leaves only some bytes on its file system.
func fill(name string, left int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(name), &fs); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for n := int64(fs.Bavail)*fs.Bsize - left; n > 0; n -= int64(len(block)) {
		if _, err := f.Write(block[:min(n, int64(len(block)))]); err != nil {
			return err
		}
	}
	return nil
}

func TestRemoteRestarted(t *testing.T) {
	store := t.TempDir()
	s := newSite(t, "--spawn_strategy=remote", "--noremote_local_fallback", "--remote_download_outputs=all", "--remote_retries=1", "--jobs=4")
	start := func() (*reapi.Server, string) {
		server, err := reapi.Start(context.Background(), reapi.Options{Dir: store})
		if err != nil {
			t.Fatal(err)
		}
		return server, "--remote_executor=" + server.Address()
	}
	server, flag := start()
	s.change(0)
	s.recover(0, flag)
	for round := range *rounds {
		s.change(round + 1)
		r := rand.New(rand.NewPCG(uint64(round), 2))
		closed := make(chan error)
		go func() {
			time.Sleep(time.Duration(500+r.IntN(1500)) * time.Millisecond)
			closed <- server.Close()
		}()
		_, err := s.Try(append([]string{"build", "--keep_going", flag}, s.flags...)...)
		t.Logf("round %d: the build fails: %t", round, err != nil)
		if err := <-closed; err != nil {
			t.Logf("the server: %v", err)
		}
		server, flag = start()
		s.recover(s.complete(), flag)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
