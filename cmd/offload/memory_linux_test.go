package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/workerproto"
	"github.com/rules-offload/rules_offload/internal/testing/workertest"
)

// blocks returns zstd blocks of some bytes and then of zeros.
func blocks(start []byte, zeros int64) []byte {
	var b []byte
	block := func(kind, size uint32, last bool, content []byte) {
		h := size<<3 | kind<<1
		if last {
			h |= 1
		}
		b = append(b, byte(h), byte(h>>8), byte(h>>16))
		b = append(b, content...)
	}
	block(0, uint32(len(start)), zeros == 0, start)
	for zeros > 0 {
		n := min(zeros, 128<<10)
		zeros -= n
		block(1, uint32(n), zeros == 0, []byte{0})
	}
	return b
}

// bomb returns a compressed bundle of some bytes and then of zeros, with a window of windowLog
// bits or, if that is 0, of all bytes.
func bomb(start []byte, zeros int64, windowLog int) []byte {
	size := uint64(len(start)) + uint64(zeros)
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd}
	if windowLog > 0 {
		frame = append(frame, 0xc0, byte(windowLog-10)<<3)
	} else {
		frame = append(frame, 0xe0)
	}
	frame = binary.LittleEndian.AppendUint64(frame, size)
	frame = append(frame, blocks(start, zeros)...)
	b := append([]byte("CCOB"), 3, 0, 1, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(32+len(frame)))
	b = binary.LittleEndian.AppendUint64(b, size)
	b = append(b, make([]byte, 8)...)
	return append(b, frame...)
}

// header returns the header of a plain bundle.
func header(entries ...func([]byte) []byte) []byte {
	b := binary.LittleEndian.AppendUint64([]byte("__CLANG_OFFLOAD_BUNDLE__"), uint64(len(entries)))
	for _, e := range entries {
		b = e(b)
	}
	return b
}

func entry(offset, size int64, id string) func([]byte) []byte {
	return func(b []byte) []byte {
		for _, n := range []int64{offset, size, int64(len(id))} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		return append(b, id...)
	}
}

// inflatable returns a compressed offload binary with an image of that many zero bytes.
func inflatable(zeros int64) []byte {
	frame := bomb(nil, zeros, 0)[32:]
	b := append([]byte{0x10, 0xff, 0x10, 0xad}, 3, 0, 0, 0)
	for _, n := range []int64{40 + int64(len(frame)), 40, 1, 40 + zeros} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return append(b, frame...)
}

// tarHeader returns the start of a tar file whose first member is an ELF file of a size.
func tarHeader(name string, size int64) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: name, Size: size, Typeflag: tar.TypeReg, Format: tar.FormatGNU}); err != nil {
		panic(err)
	}
	return append(out.Bytes(), "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x3e\x00"...)
}

const memoryID = "hipv4-amdgcn-amd-amdhsa--gfx942"

// Files crafted to use much memory: with a limit, calls fail with a message about the required
// memory, or stay below the limit. They leave no output.
func TestBombs(t *testing.T) {
	const gib, mib = 1 << 30, 1 << 20
	dir := t.TempDir()
	one := func(size int64) []byte { return header(entry(4096, size, memoryID)) }
	pad := func(b []byte) []byte { return append(b, make([]byte, 4096-len(b))...) }
	var names []func([]byte) []byte
	for i := range 1 << 16 {
		names = append(names, entry(0, 0, fmt.Sprintf("hip-%d", i)))
	}
	for name, content := range map[string][]byte{
		"window":   bomb(pad(one(2*gib-8192)), 2*gib-8192, 31),
		"segment":  bomb(pad(one(2*gib-8192)), 2*gib-8192, 0),
		"large":    bomb(pad(one(4*gib)), 4*gib, 0),
		"zeros":    bomb(nil, 6*gib, 0),
		"text":     bomb([]byte("\n# __CLANG_OFFLOAD_BUNDLE____START__ hip\n"), gib, 0),
		"fits":     bomb(pad(one(200*mib)), 200*mib, 28),
		"entries":  bytes.Repeat(bomb(binary.LittleEndian.AppendUint64([]byte("__CLANG_OFFLOAD_BUNDLE__"), 1<<16), 24<<16, 0), 40),
		"ids":      bomb(header(entry(0, 0, ""))[:24+8+16], 15*mib, 0),
		"names":    bytes.Repeat(header(names...), 4),
		"many":     bytes.Repeat(header(entry(0, 0, "")), 9<<20/56),
		"v3":       inflatable(900 * mib),
		"packed":   fixture.Archive(t, "member", string(bomb(nil, 3*gib, 0))),
		"lib.tar":  bomb(tarHeader("lib.so", 2*gib), 2*gib+2048, 27)[32:],
		"fits.tar": bomb(tarHeader("lib.so", 200*mib), 200*mib+2048, 27)[32:],
		"a.tar":    bomb(tarHeader("lib.so", gib), gib+2048, 0)[32:],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 512 * mib
	for _, test := range []struct {
		args   string
		reason string // of a failure; "" for success
	}{
		{"offload check --input window", "window: needs 2147483648 bytes of memory at a time, the limit is 536870912 bytes; raise it with --max-memory"},
		{"offload unbundle --type bc --input window --entry gfx942=out", "needs"},
		{"offload unbundle --type bc --input segment --entry gfx942=out", "needs"},
		{"offload unbundle --type bc --input segment --entry gfx942=-", "needs"},
		{"offload unbundle --verify --type bc --input large --entry gfx942=out", "large: needs 4296019968 bytes of memory"},
		{"offload unbundle --type ii --input large --entry gfx942=out", "needs"},
		{"offload unbundle --type bc --input fits --entry gfx942=out", ""},
		{"offload unbundle --type bc --input fits --entry gfx942=-", ""},
		{"offload unbundle --type bc --input fits --entry gfx942=/dev/stdout", ""},
		{"offload list zeros", "zeros: needs"},
		{"offload list --type s text", "needs"},
		{"offload list --type a packed", "needs"},
		{"offload list entries", "more than 262144 entries"},
		{"offload inspect --json entries", "needs"},
		{"offload list names", ""},
		{"offload list --json many", ""},
		{"offload inspect --json many", ""},
		{"offload inspect window", ""},
		{"offload inspect --kernels window", "window: "},
		{"offload diff segment segment", "segment: "},
		{"offload prune --input segment --output out --decompress", "needs"},
		{"offload inspect v3", "v3: needs"},
		{"llvm-offload-binary v3", "needs"},
		{"offload register --kind openmp --triple x86_64-unknown-linux-gnu --output out v3", "v3: needs"},
		{"offload prune --keep gfx942 --input v3 --output out", "v3: "},
		{"offload check --covers=gfx942 lib.tar", "lib.tar!lib.so: needs 2281701376 bytes of memory at a time"},
		{"offload check --package lib.tar", "lib.tar!lib.so: needs 2281701376 bytes of memory at a time"},
		{"offload check --covers=gfx942 fits.tar", "fits.tar: no file with device code"},
		{"offload check --covers=gfx942 a.tar", "needs"},
		{"offload check --package a.tar", "needs"},
		{"clang-offload-bundler -type=bc -unbundle -input=window -output=out -targets=" + memoryID, "needs 2148528128 bytes of memory at a time, the limit is 536870912 bytes; raise it with the environment variable OFFLOAD_MAX_MEMORY"},
		{"clang-offload-bundler -type=s -list -input=text", "needs"},
		{"offload list -", "-: more than 134217728 bytes from an input that is not a regular file"},
		{"offload list /dev/zero", "/dev/zero: more than 134217728 bytes"},
	} {
		t.Run(test.args, func(t *testing.T) {
			words := strings.Fields(test.args)
			cmd := program(t, dir, words[0], words[1:]...)
			cmd.Env = append(cmd.Env, "OFFLOAD_MAX_MEMORY=512MiB")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if strings.HasSuffix(test.args, " -") {
				zero, err := os.Open("/dev/zero")
				if err != nil {
					t.Fatal(err)
				}
				defer zero.Close()
				cmd.Stdin = zero
			}
			err := cmd.Run()
			peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
			if (err == nil) != (test.reason == "") || !strings.Contains(stderr.String(), test.reason) || strings.Contains(stderr.String(), "goroutine") {
				t.Errorf("%v: %s", err, stderr.String())
			}
			if most := int64(limit + 64*mib); peak > most {
				t.Errorf("%d MiB of memory, the limit is 512", peak/mib)
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); (err == nil) != (test.reason == "" && strings.HasSuffix(test.args, "=out")) {
				t.Errorf("output: %v", err)
			}
			os.Remove(filepath.Join(dir, "out"))
		})
	}
}

// All requests of a worker share its limit: those that need more fail, the others wait for each
// other.
func TestBombsInWorker(t *testing.T) {
	const mib = 1 << 20
	dir := t.TempDir()
	start := append(header(entry(4096, 120*mib, memoryID)), make([]byte, 4096)...)[:4096]
	for name, content := range map[string][]byte{
		"window": bomb(start, 120*mib, 31), // of which only the content counts
		"large":  bomb(nil, 1<<30, 0),
		"fits":   bomb(start, 120*mib, 27),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cmd := program(t, dir, "offload", "--persistent_worker", "--max-memory=256MiB")
	cmd.Stdout = nil
	client, err := workertest.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var requests sync.WaitGroup
	for i := range 12 {
		test := []struct {
			args string
			want int32
		}{
			{"unbundle --type bc --input fits --entry gfx942=out", 0},
			{"list large", 1},
			{"check --input window", 1},
			{"list --max-memory=1GiB large", 2},
		}[i%4]
		requests.Go(func() {
			args := strings.Fields(strings.ReplaceAll(test.args, "=out", fmt.Sprintf("=out%d", i)))
			response, err := client.Do(t.Context(), &workerproto.WorkRequest{
				RequestId: int32(i + 1), Arguments: args, Inputs: []*workerproto.Input{{Path: "fits"}, {Path: "large"}, {Path: "window"}},
			})
			if err != nil || response.ExitCode != test.want {
				t.Errorf("%s: %v, %v", args, response, err)
			}
		})
	}
	requests.Wait()
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	// The process itself takes up to 64 MiB. On a busy machine, the next request can begin before the garbage of the last
	// one is collected, at most one window.
	if peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; peak > (256+64+128)*mib {
		t.Errorf("%d MiB of memory, the limit is 256", peak/mib)
	}
}

// The limit comes from the flag, else from the environment, else from the memory that the process
// can have.
func TestMemoryLimit(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "b"), bomb(nil, 1<<30, 0), 0o666); err != nil {
		t.Fatal(err)
	}
	failure := func(variable string, args ...string) string {
		cmd := program(t, dir, "offload", args...)
		cmd.Env = append(cmd.Env, "OFFLOAD_MAX_MEMORY="+variable)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err == nil {
			t.Errorf("%s %q: exit code 0", variable, args)
		}
		return stderr.String()
	}
	for _, test := range []struct{ variable, args, want string }{
		{"64M", "list b", "the limit is 67108864 bytes"},
		{"64M", "list --max-memory 128MiB b", "the limit is 134217728 bytes"},
		{"", "list --max-memory=134217728 b", "the limit is 134217728 bytes"},
		{"64M", "list --max-memory much b", "found \"much\", expected a size such as 4096, 100MB or 1GiB"},
		{"64M", "list --max-memory 1M b", "expected at least 16MiB"},
		{"-1", "list b", "environment variable OFFLOAD_MAX_MEMORY: found \"-1\", expected a size"},
		{"1G", "--persistent_worker --max-memory", "--max-memory: the size is missing"},
		{"1G", "--persistent_worker --max-memory=x", "--max-memory: found \"x\", expected a size"},
	} {
		if got := failure(test.variable, strings.Fields(test.args)...); !strings.Contains(got, test.want) {
			t.Errorf("%s %s: %s, want %s", test.variable, test.args, got, test.want)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := program(t, dir, "offload")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `ulimit -v 1048576; exec "$0" list b`, self}
	// A C library, if the test has one, reserves memory for each thread.
	cmd.Env = append(cmd.Env, "OFFLOAD_MAX_MEMORY=", "MALLOC_ARENA_MAX=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil || !strings.HasSuffix(stderr.String(), " bytes; raise the limit of address space (ulimit -v)\n") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// The least limit of all control groups counts, in both versions of them.
func TestGroupMemory(t *testing.T) {
	write := func(path, content string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	self := filepath.Join(dir, "self")
	for _, test := range []struct {
		self  string
		files map[string]string
		want  int64
	}{
		{"0::/a/b\n", map[string]string{"a/memory.max": "1000\n", "a/b/memory.max": "max\n"}, 1000},
		{"0::/a/b\n", map[string]string{"a/memory.max": "max\n", "a/b/memory.max": "500\n", "memory.max": "700"}, 500},
		{"12:cpu:/x\n5:blkio,memory:/docker/1\n0::/\n", map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/docker/1/memory.limit_in_bytes": "4096\n"}, 4096},
		{"5:memory:/not/seen/here\n", map[string]string{"memory/memory.limit_in_bytes": "8192\n"}, 8192},
		{"0::/\n", nil, math.MaxInt64},
		{"nonsense", nil, math.MaxInt64},
	} {
		mount := t.TempDir()
		write(self, test.self)
		for name, content := range test.files {
			write(filepath.Join(mount, name), content)
		}
		if got := groupMemory(self, mount); got != test.want {
			t.Errorf("%q: %d, want %d", test.self, got, test.want)
		}
	}
	if n := machineMemory(); n < 1<<20 || n == math.MaxInt64 {
		t.Errorf("the machine has %d bytes", n)
	}
}
