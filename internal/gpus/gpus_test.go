package gpus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// machine makes a root directory with nodes of AMD's topology, by their properties, and device files.
func machine(t *testing.T, nodes []string, devices ...string) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, content string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, properties := range nodes {
		write(fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", i), properties)
	}
	for _, device := range devices {
		write("dev/"+device, "")
	}
	return root
}

func names(root string, gpus []GPU) []string {
	var all []string
	for _, gpu := range gpus {
		lock, _ := filepath.Rel(root, gpu.Lock)
		all = append(all, gpu.Name+" "+lock)
	}
	return all
}

func TestFind(t *testing.T) {
	cpu := "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0\n"
	gpu := func(minor int) string {
		return fmt.Sprintf("cpu_cores_count 0\nsimd_count 304\ndrm_render_minor %d\n", minor)
	}
	eleven := []string{cpu}
	var devices []string
	for i := range 10 {
		eleven = append(eleven, gpu(128+i))
		devices = append(devices, fmt.Sprint("dri/renderD", 128+i))
	}
	for name, test := range map[string]struct {
		root   string
		vendor Vendor
		want   []string
	}{
		"AMD":                {machine(t, []string{cpu, cpu, gpu(129), gpu(128)}, "dri/renderD128", "dri/renderD129", "nvidia0"), AMD, []string{"0 dev/dri/renderD129", "1 dev/dri/renderD128"}},
		"by number":          {machine(t, eleven, devices...), AMD, []string{"0 dev/dri/renderD128", "1 dev/dri/renderD129", "2 dev/dri/renderD130", "3 dev/dri/renderD131", "4 dev/dri/renderD132", "5 dev/dri/renderD133", "6 dev/dri/renderD134", "7 dev/dri/renderD135", "8 dev/dri/renderD136", "9 dev/dri/renderD137"}},
		"container with one": {machine(t, []string{cpu, gpu(128), gpu(129)}, "dri/renderD129"), AMD, []string{"0 dev/dri/renderD129"}},
		"NVIDIA":             {machine(t, []string{cpu}, "nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm"), NVIDIA, []string{"0 dev/nvidia0", "1 dev/nvidia1"}},
	} {
		vendor, found, err := Find(test.root)
		if err != nil || vendor != test.vendor {
			t.Errorf("%s: %s, %v", name, vendor, err)
		}
		if diff := cmp.Diff(test.want, names(test.root, found)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, test := range []struct{ root, want string }{
		{machine(t, []string{cpu}), "no GPU was found"},
		{machine(t, []string{"simd_count many\n"}), `topology/nodes/0/properties: line 1: found "simd_count many", expected a name, a space and a number`},
	} {
		if _, _, err := Find(test.root); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

func TestVisible(t *testing.T) {
	for _, test := range []struct {
		vendor  Vendor
		environ []string
		want    []string // the names
		wrong   string   // the error, if any
	}{
		{AMD, nil, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, ""},
		{AMD, []string{"ROCR_VISIBLE_DEVICES=4,5,6"}, []string{"4", "5", "6"}, ""},
		{AMD, []string{"HIP_VISIBLE_DEVICES=3, 2"}, []string{"3", "2"}, ""},
		{AMD, []string{"ROCR_VISIBLE_DEVICES=4,5,6", "HIP_VISIBLE_DEVICES=2,0"}, []string{"6", "4"}, ""},
		{AMD, []string{"ROCR_VISIBLE_DEVICES=4", "HIP_VISIBLE_DEVICES=1"}, nil, `HIP_VISIBLE_DEVICES is "1": found "1", expected numbers of GPUs below 1, separated by commas`},
		{AMD, []string{"ROCR_VISIBLE_DEVICES=GPU-1"}, nil, `ROCR_VISIBLE_DEVICES is "GPU-1": found "GPU-1"`},
		{AMD, []string{"CUDA_VISIBLE_DEVICES=4"}, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, ""},
		{NVIDIA, []string{"CUDA_VISIBLE_DEVICES=4", "ROCR_VISIBLE_DEVICES=1"}, []string{"4"}, ""},
	} {
		visible, err := Visible(test.vendor, Pretend(8, "locks"), test.environ)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%q: %v, want %s", test.environ, err, test.wrong)
			}
			continue
		}
		var got []string
		for _, gpu := range visible {
			got = append(got, gpu.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s %q: %v (-want +got):\n%s", test.vendor, test.environ, err, diff)
		}
	}
}

func TestEnvironment(t *testing.T) {
	chosen := []GPU{{Name: "6"}, {Name: "4"}}
	for _, test := range []struct {
		vendor        Vendor
		environ, want []string
	}{
		{AMD, []string{"A=1", "ROCR_VISIBLE_DEVICES=4,5,6", "B=2"}, []string{"A=1", "B=2", "HIP_VISIBLE_DEVICES=0,1", "ROCR_VISIBLE_DEVICES=6,4"}},
		{AMD, []string{"CUDA_VISIBLE_DEVICES=3"}, []string{"CUDA_VISIBLE_DEVICES=0,1", "HIP_VISIBLE_DEVICES=0,1", "ROCR_VISIBLE_DEVICES=6,4"}},
		{NVIDIA, []string{"HIP_VISIBLE_DEVICES=3"}, []string{"HIP_VISIBLE_DEVICES=3", "CUDA_VISIBLE_DEVICES=6,4"}},
	} {
		if diff := cmp.Diff(test.want, Environment(test.vendor, chosen, test.environ)); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", test.vendor, test.environ, diff)
		}
	}
}

// holder is the variable that makes the test program take GPUs, print them, and wait until its standard input ends.
const holder = "GPUS_TEST_HOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holder); dir != "" {
		count, _ := strconv.Atoi(os.Args[1])
		taken, err := Take(context.Background(), Pretend(8, dir), count)
		if err == nil {
			names := []string{"-c", "printf '%s\\n' \"$*\"; cat", "sh"}
			for _, gpu := range taken {
				names = append(names, gpu.Name)
			}
			err = Become("/bin/sh", append([]string{"sh"}, names...), nil)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// hold starts a process that takes GPUs, and returns their names when it has them, and a function that ends it.
func hold(t *testing.T, dir string, count int) (<-chan string, func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], strconv.Itoa(count))
	cmd.Env, cmd.Stderr = []string{holder + "=" + dir}, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	names := make(chan string, 1)
	go func() {
		var line [64]byte
		n, _ := out.Read(line[:])
		names <- strings.TrimSpace(string(line[:n]))
	}()
	return names, func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestTake runs processes on eight pretended GPUs. A ninth waits for the first that ends, and so does one for several GPUs.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	owners := map[string]func(){}
	for range 8 {
		names, end := hold(t, dir, 1)
		name := <-names
		if _, twice := owners[name]; twice {
			t.Fatalf("two processes have GPU %s", name)
		}
		owners[name] = end
	}
	ninth, endNinth := hold(t, dir, 1)
	three, endThree := hold(t, dir, 3)
	select {
	case name := <-ninth:
		t.Fatalf("a ninth process has GPU %s", name)
	case names := <-three:
		t.Fatalf("a process has GPUs %s", names)
	case <-time.After(300 * time.Millisecond):
	}
	owners["5"]()
	if name := <-ninth; name != "5" {
		t.Errorf("the ninth process has GPU %q, want 5, the one that is free", name)
	}
	for _, name := range []string{"1", "4", "6"} {
		owners[name]()
	}
	if names := <-three; names != "1 4 6" {
		t.Errorf("the process for three has GPUs %q, want those that are free", names)
	}
	endNinth()
	endThree()
	for _, name := range []string{"0", "2", "3", "7"} {
		owners[name]()
	}
}

func TestTakeErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Take(t.Context(), Pretend(2, dir), 3); err == nil || err.Error() != "3 GPUs are needed, and there are 2" {
		t.Error(err)
	}
	if _, err := Take(t.Context(), Pretend(1, filepath.Join(dir, "nowhere")), 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	names, end := hold(t, dir, 1)
	<-names
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Take(ctx, Pretend(1, dir), 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add([]byte("simd_count 304\ndrm_render_minor 128\n"))
	f.Add([]byte("gfx_target_version 90402\nunique_id 18446744073709551615\n"))
	f.Add([]byte("simd_count\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		properties, err := parseProperties(content)
		if err == nil && len(properties) > strings.Count(string(content), "\n")+1 {
			t.Errorf("%d properties in %q", len(properties), content)
		}
	})
}
