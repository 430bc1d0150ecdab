package launch

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/reapi"
)

var built struct {
	once sync.Once
	path string
	err  error
}

// remoteProgram returns the path of offload-remote.
func remoteProgram(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if root.Bazel() {
			built.path, built.err = root.Runfile("OFFLOAD_REMOTE")
			return
		}
		var dir, project string
		if dir, built.err = llvm.Scratch(); built.err != nil {
			return
		}
		if project, built.err = root.Project(); built.err != nil {
			return
		}
		built.path = filepath.Join(dir, "offload-remote")
		build := exec.Command("go", "build", "-o", built.path, "./cmd/offload-remote")
		build.Dir = project
		var out []byte
		if out, built.err = build.CombinedOutput(); built.err != nil {
			t.Logf("%s", out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// another returns a bench of another machine: with the same sources and a cache of its own.
func (b *bench) another(t *testing.T, env ...string) *bench {
	env = append(env, "PATH="+filepath.Dir(remoteProgram(t))+":"+llvm.Dir+":/usr/bin:/bin", "OFFLOAD_CACHE="+filepath.Join(t.TempDir(), "cache"))
	return &bench{t: t, dir: b.dir, env: append(append([]string{}, b.env...), env...)}
}

// eventually calls what until it returns want: uploads end after the compilation.
func eventually(t *testing.T, want string, what func() string) {
	t.Helper()
	var got string
	for range 100 {
		if got = what(); got == want {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("got %s, want %s", got, want)
}

// files is a server with the layout of Bazel's HTTP cache.
type files struct {
	mu      sync.Mutex
	content map[string][]byte
	header  string // of the last request
}

func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.header = r.Header.Get("X-Test")
	switch r.Method {
	case http.MethodGet:
		data, ok := f.content[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Write(data)
	case http.MethodPut:
		f.content[r.URL.Path], _ = io.ReadAll(r.Body)
	}
}

// TestRemote shares results between two machines, with a server of the Remote Execution API and one of HTTP.
func TestRemote(t *testing.T) {
	t.Parallel()
	server, err := reapi.Start(t.Context(), reapi.Options{Dir: filepath.Join(t.TempDir(), "casd")})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	stored := &files{content: map[string][]byte{}}
	web := httptest.NewServer(stored)
	defer web.Close()
	address := server.Address()
	if !strings.Contains(address, "://") {
		address = "grpc://" + address
	}
	for name, url := range map[string]string{"gRPC": address, "HTTP": web.URL + "/cache"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			// More than the largest message of gRPC.
			b.write("large.hip", "#include \"hip.h\"\n__device__ const char text[] = {\n#embed \"data\"\n};\n__global__ void k(char *p) { *p = text[*p]; }\n")
			noise := make([]byte, 5<<20)
			x := uint32(1)
			for i := range noise {
				x = x*1664525 + 1013904223
				noise[i] = byte(x >> 24)
			}
			b.write("data", string(noise))
			url := "OFFLOAD_REMOTE_CACHE=" + url
			compilation := with("gfx90a gfx942", "-c", "-Wno-c23-extensions", "-MD", "-MF", "out.d", "-o", "out.o", "large.hip")
			one := b.another(t, url)
			one.expect("gfx90a miss, gfx942 miss, host miss", compilation...)
			want, deps := b.read("out.o"), b.read("out.d")
			eventually(t, "gfx90a hit, gfx942 hit, host hit", func() string {
				return b.another(t, url, "OFFLOAD_REMOTE_READ_ONLY=1").states(compilation...)
			})
			if string(b.read("out.o")) != string(want) || string(b.read("out.d")) != string(deps) {
				t.Error("the outputs of the other machine differ")
			}
			// What a read-only client compiles stays on its machine.
			readOnly := b.another(t, url, "OFFLOAD_REMOTE_READ_ONLY=1")
			other := append(compilation, "-O1")
			readOnly.expect("gfx90a miss, gfx942 miss, host miss", other...)
			readOnly.expect("gfx90a hit, gfx942 hit, host hit", other...)
			time.Sleep(time.Second)
			b.another(t, url).expect("gfx90a miss, gfx942 miss, host miss", other...)
			// Both machines know variants of one source that the other one does not.
			small := with("gfx90a", "-c", "-o", "small.o", "scale.hip")
			two := b.another(t, url)
			two.expect("gfx90a miss, host miss", small...)
			b.write("scale.h", strings.Replace(scaleHeader, "3", "5", 1))
			three := b.another(t, url)
			eventually(t, "gfx90a hit, host hit", func() string { return three.states(small...) })
			eventually(t, "gfx90a hit, host hit", func() string { return two.states(small...) })
		})
	}
}

// TestRemoteFails has servers that fail: the compilation succeeds, in time, with one warning.
func TestRemoteFails(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer broken.Close()
	lying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "not a result") }))
	defer lying.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	b := newBench(t)
	for name, url := range map[string]string{
		"no server": "grpc://" + closed.Addr().String(), "silent, gRPC": "grpc://" + silent.Addr().String(), "silent, HTTP": "http://" + silent.Addr().String(), "broken": broken.URL, "no result": lying.URL, "unknown host": "http://host.invalid",
	} {
		t.Run(name, func(t *testing.T) {
			machine := b.another(t, "OFFLOAD_REMOTE_CACHE="+url, "OFFLOAD_REMOTE_TIMEOUT=300ms")
			args := with("gfx90a", "-c", "-o", "x.o", "scale.hip")
			start := time.Now()
			r := machine.launch(args...)
			if r.code != 0 || strings.Count(r.stderr, "offload launch: warning: remote cache "+url) != 1 {
				t.Errorf("got %+v, want one warning", r)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("it took %v", took)
			}
			if r := machine.launch(args...); r.code != 0 || r.stderr != "" {
				t.Errorf("the second compilation: got %+v, want no message: the server is not asked again", r)
			}
			machine.expect("gfx90a hit, host hit", args...)
		})
	}
	without := b.another(t, "OFFLOAD_REMOTE_CACHE=http://localhost:1")
	without.env = append(without.env, "PATH="+llvm.Dir+":/usr/bin:/bin")
	if r := without.launch(with("gfx90a", "-c", "-o", "x.o", "scale.hip")...); r.code != 0 || !strings.Contains(r.stderr, "offload-remote is neither beside offload nor in PATH") {
		t.Errorf("without offload-remote: %+v", r)
	}
}

// TestConfiguration reads offload.toml beside a build, with headers and a credential helper.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	stored := &files{content: map[string][]byte{}}
	web := httptest.NewServer(stored)
	defer web.Close()
	b := newBench(t)
	b.write("../helper", "#!/bin/sh\nread request\necho '{\"headers\": {\"X-Test\": [\"from the helper\"]}}'\n")
	if err := os.Chmod(b.path("../helper"), 0o777); err != nil {
		t.Fatal(err)
	}
	b.write("../offload.toml", "[cache]\ndir = \"own\"\nsize = \"100MB\"\nbase_dir = \".\"\n[remote]\nurl = \""+web.URL+"\"\ncredential_helper = \""+b.path("../helper")+"\"\n[launch]\nlog = \"launch.log\"\n")
	machine := b.another(t)
	machine.env = append(machine.env, "OFFLOAD_CACHE="+b.path("../own"))
	machine.expect("gfx90a miss, host miss", with("gfx90a", "-c", "-o", "x.o", "scale.hip")...)
	eventually(t, "from the helper", func() string {
		stored.mu.Lock()
		defer stored.mu.Unlock()
		return stored.header
	})
	if log := string(b.read("../launch.log")); !strings.Contains(log, "gfx90a: miss") {
		t.Errorf("the log: %s", log)
	}
	for text, want := range map[string]string{
		"[cache]\nsize = \"x\"\n":       "offload.toml: size of the cache: found \"x\"",
		"[cache]\nfolder = \"x\"\n":     "offload.toml:2: unknown setting cache.folder",
		"[cache\n":                      "offload.toml:1: ",
		"[remote]\nurl = \"ftp://x\"\n": "found \"ftp://x\", expected grpc://",
		"[remote]\ntimeout = \"5\"\n":   "found \"5\", expected a time such as 5s",
	} {
		b.write("offload.toml", text)
		if r := b.launch("-c", "scale.hip"); r.code != 1 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: got %+v, want %s", text, r, want)
		}
	}
}
