package verb

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// runIn runs a command line in a directory.
func runIn(dir string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(context.Background(), &command.Call{
		Name: "offload", Args: args, Stdout: &out, Stderr: &errs,
		Session: engine.New(engine.Config{Dir: dir, Stdout: &out, Budget: budget.New(1, 64<<20)}),
	})
	return code, out.String(), errs.String()
}

// Packing, listing and extracting, with messages where LLVM's tool prints nothing.
func TestPackInspectExtract(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.o": "object", "x.so": "text", "y.hsaco": "\x7fELF", "z.ptx": "//\n.version 7.0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const triple = "triple=amdgcn-amd-amdhsa"
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"pack --output p --image file=a.o," + triple + ",arch=gfx90a,kind=hip --image file=y.hsaco," + triple + ",kind=openmp,feature=x", 0, "", ""},
		{"pack --output q --image file=x.so," + triple, 0, "", "offload pack: warning: x.so: neither its name nor its contents indicate a format; packed without one\n"},
		{"pack --output s --image file=z.ptx,triple=nvptx64-nvidia-cuda,arch=sm_70,kind=cuda", 0, "", ""},
		{"inspect s", 0, "KIND  TRIPLE               ARCH   FORMAT  SIZE  STORED AS              IN\n" +
			"cuda  nvptx64-nvidia-cuda  sm_70  ptx     16 B  offload binary at 0x0  -\n", ""},
		{"pack --output r --image file=a.o," + triple + ",kind=HIP", 2, "", `offload pack: --image: kind=: found "HIP", expected ` + alternatives(packedKinds()) + ". Try: offload pack --help\n"},
		{"pack --output r --image file=a.o,kind=hip", 2, "", "offload pack: --image file=a.o,kind=hip: triple= is missing. Try: offload pack --help\n"},
		{"pack --output r --image file=a.o,file=x.so", 2, "", `offload pack: --image: file= is given twice. Try: offload pack --help` + "\n"},
		{"pack --output r --format-version 4 --image file=a.o," + triple, 2, "", "offload pack: --format-version: found \"4\", expected 1, 2 or 3. Try: offload pack --help\n"},
		{"pack --output r", 2, "", "offload pack: no --image: name at least one, e.g. --image file=dev.o,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=hip. Try: offload pack --help\n"},
		{"inspect p", 0, "KIND    TRIPLE             ARCH    FORMAT  SIZE  STORED AS               IN\n" +
			"hip     amdgcn-amd-amdhsa  gfx90a  elf     6 B   offload binary at 0x0   -\n" +
			"openmp  amdgcn-amd-amdhsa  -       elf     4 B   offload binary at 0x98  -\n", ""},
		{"inspect a.o", 0, "", "offload inspect: a.o: no device images: found text\n"},
		{"inspect", 2, "", "offload inspect: the input is missing: expected at least one FILE. Try: offload inspect --help\n"},
		{"extract p", 0, "p-amdgcn-amd-amdhsa-gfx90a.0.o\np-amdgcn-amd-amdhsa.1.o\n", ""},
		{"extract --image arch=gfx90a,file=out p", 0, "", ""},
		{"extract --image arch=gfx91,file=none p", 1, "", "offload: p: no image has arch=gfx91; there are hip amdgcn-amd-amdhsa gfx90a, openmp amdgcn-amd-amdhsa\n"},
		{"extract --image " + triple + ",file=none p", 1, "", "offload: p: 2 images have triple=amdgcn-amd-amdhsa: hip amdgcn-amd-amdhsa gfx90a, openmp amdgcn-amd-amdhsa; choose one by another property, or write an archive of them\n"},
		{"extract --image kind=hop,file=none p", 2, "", `offload extract: --image: kind=: found "hop", did you mean hip? Try: offload extract --help` + "\n"},
		{"extract a.o", 1, "", "offload: a.o: no device images: found text\n"},
	} {
		code, stdout, stderr := runIn(dir, strings.Fields(test.args)...)
		if code != test.code || stdout != test.stdout || stderr != test.stderr {
			t.Errorf("%s: exit code %d, want %d\n%s", test.args, code, test.code, cmp.Diff(test.stdout+test.stderr, stdout+stderr))
		}
	}
	for name, want := range map[string]string{"out": "object", "p-amdgcn-amd-amdhsa.1.o": "\x7fELF"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a failed extraction left its output")
	}
	_, stdout, _ := runIn(dir, "inspect", "--json", "p")
	var got []map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"members": []any{}, "section": "", "stored": "offload binary", "container": 152.0, "size": 4.0, "kind": "openmp",
		"triple": "amdgcn-amd-amdhsa", "arch": "", "id": "", "format": "elf", "properties": map[string]any{"triple": "amdgcn-amd-amdhsa", "feature": "x"},
	}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
