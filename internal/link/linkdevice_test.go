package link

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// referring returns an object that refers to symbols.
func referring(t *testing.T, names ...string) []byte {
	t.Helper()
	return fixture.Bytes(t, func(out content.Sink) error {
		const amdgpu = 224
		b := object.NewBuilder(amdgpu)
		text := b.Section(object.BuilderSection{Name: ".text", Type: 1, Flags: 6, Align: 4, Content: content.Memory(make([]byte, 64))})
		for i, name := range names {
			b.Relocate(text, uint64(8*i), 1, b.Symbol(object.BuilderSymbol{Name: name, Bind: elf.BindGlobal}), 0)
		}
		return b.Write(out)
	})
}

// TestLinkDevice links with a compiler that prints lld's messages about undefined symbols.
func TestLinkDevice(t *testing.T) {
	s, dir := newSession(t, map[string][]byte{
		"a.o":  referring(t, "_Z7nowherei", "plain"),
		"b.o":  referring(t, "_Z7nowherei", "defined"),
		"text": []byte("text"),
	})
	clang := filepath.Join(dir, "clang")
	link := func(printed string, objects ...LinkedObject) (string, error) {
		t.Helper()
		script := "#!/bin/sh\ncat <<'END' >&2\n" + printed + "END\nexit 1\n"
		if err := os.WriteFile(clang, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		return LinkDevice(context.Background(), s, LinkDeviceOptions{
			Command: []string{clang}, Env: []string{"PATH=" + os.Getenv("PATH")}, Objects: objects, Advice: "define it",
		})
	}
	all := []LinkedObject{{File: "a.o", Source: "k/a.hip"}, {File: "text", Source: "text"}, {File: "b.o", Source: "k/b.hip"}, {File: "missing.o", Source: "missing"}}
	const hidden = "ld.lld: error: undefined hidden symbol: nowhere(int)\n>>> referenced by a.hip\n"
	for _, test := range []struct{ name, printed, want string }{
		{"one", hidden + "clang: error: linker command failed\n", `undefined device symbol "nowhere(int)": referenced by k/a.hip, k/b.hip; define it`},
		{"mangled", "lld: error: undefined symbol: _Z7nowherei\n", `undefined device symbol "_Z7nowherei": referenced by k/a.hip, k/b.hip; define it`},
		{"several", hidden + "ld.lld: error: undefined symbol: plain\nld.lld: error: undefined symbol: other\nld.lld: error: undefined protected symbol: last\n" + hidden,
			`undefined device symbol "nowhere(int)": referenced by k/a.hip, k/b.hip; define it` + "\n" +
				`undefined device symbol "plain": referenced by k/a.hip; define it` + "\n" +
				`undefined device symbols "other", "last": referenced by the libraries of the link; define it`},
	} {
		printed, err := link(test.printed, all...)
		if err == nil {
			t.Errorf("%s: got no error, want one", test.name)
			continue
		}
		if diff := cmp.Diff(test.want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if printed != test.printed {
			t.Errorf("%s: printed %q, want what the linker prints", test.name, printed)
		}
	}
	printed, err := link("ld.lld: error: cannot open a.o\n", all...)
	if err == nil || err.Error() != "device link: clang: exit status 1" || printed != "ld.lld: error: cannot open a.o\n" {
		t.Errorf("another error: %v, printed %q", err, printed)
	}
	if err := os.WriteFile(clang, []byte("#!/bin/sh\necho linked\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if printed, err := LinkDevice(context.Background(), s, LinkDeviceOptions{Command: []string{clang}}); err != nil || printed != "linked\n" {
		t.Errorf("a link that succeeds: %v, printed %q", err, printed)
	}
	if _, err := LinkDevice(context.Background(), s, LinkDeviceOptions{Command: []string{filepath.Join(dir, "nothing")}}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no compiler: %v", err)
	}
}

// TestDeviceRuntime links OpenMP objects without a library. The link does not start if an object calls the device runtime.
func TestDeviceRuntime(t *testing.T) {
	s, dir := newSession(t, map[string][]byte{
		"calls.o": referring(t, "other", "__kmpc_target_init"),
		"plain.o": referring(t, "other"),
		"text":    []byte("text"),
	})
	llvm := filepath.Join(dir, "llvm")
	if err := os.MkdirAll(filepath.Join(llvm, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	clang := filepath.Join(llvm, "bin", "clang")
	if err := os.WriteFile(clang, []byte("#!/bin/sh\necho linked\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := func(target string, names ...string) (string, error) {
		t.Helper()
		opt := LinkDeviceOptions{Command: []string{clang}, WithoutRuntime: target}
		for _, name := range names {
			opt.Objects = append(opt.Objects, LinkedObject{File: name, Source: "k/" + name})
		}
		return LinkDevice(context.Background(), s, opt)
	}
	for _, names := range [][]string{{"plain.o", "text", "missing.o"}, {}} {
		if printed, err := link("gfx90a", names...); err != nil || printed != "linked\n" {
			t.Errorf("%q: %v, printed %q", names, err, printed)
		}
	}
	if printed, err := link("", "calls.o"); err != nil || printed != "linked\n" {
		t.Errorf("a link with libraries: %v, printed %q", err, printed)
	}
	check := func(want string) {
		t.Helper()
		printed, err := link("gfx90a", "plain.o", "calls.o")
		if err == nil || printed != "" {
			t.Fatalf("%v, printed %q", err, printed)
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	check("k/calls.o for gfx90a: this LLVM (" + llvm + ") has no OpenMP device runtime, lib/amdgcn-amd-amdhsa/libompdevice.a: install an LLVM that is built with the runtime openmp for amdgcn-amd-amdhsa, and name its directory: " +
		`arch_linkopts = {"amdgcn-amd-amdhsa": ["-L/LLVM/lib/amdgcn-amd-amdhsa", "-lompdevice"]}`)
	runtime := filepath.Join(llvm, "lib", "amdgcn-amd-amdhsa")
	if err := os.MkdirAll(runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(runtime, "libompdevice.a"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	check("k/calls.o for gfx90a: the link does not name LLVM's OpenMP device runtime, " + runtime + "/libompdevice.a: " +
		`arch_linkopts = {"amdgcn-amd-amdhsa": ["-L` + runtime + `", "-lompdevice"]}`)
}
