package verb

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// TestLinkingUsage checks the mistakes in command lines that verbs notice.
func TestLinkingUsage(t *testing.T) {
	for args, want := range map[string]string{
		"register --triple=x --output=o image":                 "offload register: --kind is missing",
		"register --kind=metal --triple=x --output=o image":    `--kind: found "metal", expected openmp, cuda, hip`,
		"register --kind=hip --output=o image":                 "offload register: --triple is missing",
		"register --kind=hip --triple=x image":                 "offload register: --output is missing",
		"register --kind=hip --triple=x --output=o":            "offload register: the images are missing",
		"register --kind=cuda --triple=x --output=o one other": "offload register: cuda registers one fat binary",
		"embed --output=o package":                             "offload embed: --input is missing",
		"embed --input=i package":                              "offload embed: --output is missing",
		"embed --input=i --output=o":                           "offload embed: the offload binaries are missing",
		"isolate --output=o":                                   "offload isolate: the input is missing",
		"isolate --input=i":                                    "offload isolate: --output is missing",
		"isolate --input=i --output=o more":                    `offload isolate: expected one input, found 2: i, more`,
		"compile --isolate=o -- clang":                         "offload compile: --suffix is missing",
		"compile --suffix=x -- clang":                          "offload compile: --isolate is missing",
		"link --triple=x --output=o":                           "offload link: the inputs are missing",
		"link --output=o input":                                "offload link: --triple is missing",
		"link --triple=x input":                                "offload link: --output is missing",
	} {
		code, _, stderr := runIn(t.TempDir(), strings.Fields(args)...)
		if code != 2 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, printed %q, want %s", args, code, stderr, want)
		}
	}
}

// A worker request has neither a directory nor a PATH to run a compiler with.
func TestLinkInWorker(t *testing.T) {
	var errs bytes.Buffer
	code := Run(context.Background(), &command.Call{
		Name: "offload", Args: []string{"link", "--triple=x86_64-unknown-linux-gnu", "--output=o", "a.o"}, Stdout: &errs, Stderr: &errs, Worker: true,
		Session: engine.New(engine.Config{Dir: t.TempDir()}),
	})
	if want := "offload: link: cannot run as a worker request: "; code != 1 || !strings.HasPrefix(errs.String(), want) {
		t.Errorf("exit code %d, printed %q, want %s", code, errs.String(), want)
	}
}

// The object that a compilation leaves is the one of offload isolate.
func TestCompileIsolate(t *testing.T) {
	dir := t.TempDir()
	images := object.BuilderSection{Name: ".llvm.offloading", Type: elf.ShtOffloading, Flags: elf.ShfExclude, Align: 8, Content: content.Memory([]byte("image"))}
	from, compiled := filepath.Join(dir, "from.o"), filepath.Join(dir, "compiled.o")
	if err := os.WriteFile(from, fixture.Merged(t, images), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"isolate", "--input=from.o", "--output=isolated.o", "--suffix=math", "--reference=symbol"},
		{"compile", "--isolate=" + compiled, "--suffix=math", "--reference=symbol", "--", "cp", from, compiled},
	} {
		if code, _, stderr := runIn(dir, args...); code != 0 {
			t.Fatalf("%s: exit code %d, printed %s", args[0], code, stderr)
		}
	}
	if want, got := read(t, filepath.Join(dir, "isolated.o")), read(t, compiled); got != want || got == read(t, from) {
		t.Errorf("the object has %d bytes, expected the %d of offload isolate", len(got), len(want))
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// fatObject writes a host object with an OpenMP image for the host's processor.
func fatObject(t *testing.T, dir, name string) {
	t.Helper()
	var section, fat content.Buffer
	err := offloadbinary.Write(&section, 1, []offloadbinary.Image{{
		Offload: offloadbinary.OpenMP, Content: content.Memory([]byte("image")),
		Properties: offloadbinary.Properties{{Key: "triple", Value: "x86_64-pc-linux-gnu"}, {Key: "arch", Value: "generic"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := object.NewBuilder(elf.MachineX8664)
	b.Section(object.BuilderSection{Name: ".llvm.offloading", Type: elf.ShtOffloading, Flags: elf.ShfExclude, Align: 8, Content: content.Memory(section.Bytes())})
	if err := b.Write(&fat); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), fat.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestLinkPlan(t *testing.T) {
	dir := t.TempDir()
	fatObject(t, dir, "a.o")
	code, stdout, stderr := runIn(dir, "link", "--plan", "--clang=/opt/my clang", "--device-arg=-Wl,-z,x=y", "--device-arg=amdgcn-amd-amdhsa=-O3",
		"--device-arg=x86_64-pc-linux-gnu=-DA='b'", "a.o")
	const want = "'/opt/my clang' --no-default-config -o linked0.img --target=x86_64-pc-linux-gnu -Wl,--no-undefined " +
		`image0-a-x86_64-pc-linux-gnu-generic.o -Wl,-Bsymbolic -shared -Wl,-z,x=y '-DA='\''b'\'''` + "\n"
	if code != 0 || stdout != want {
		t.Errorf("exit code %d, printed %s%s, want %s", code, stdout, stderr, want)
	}
}
