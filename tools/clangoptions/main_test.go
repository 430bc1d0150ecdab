package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

var all = flag.Bool("all", false, "write the table again and compare; this takes minutes")

func TestMain(m *testing.M) {
	llvm.Main(m, "aarch64-linux-gnu-g++")
}

func table(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(output)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every option of the table with values has as many in clang.
func TestValues(t *testing.T) {
	options := 0
	for _, m := range regexp.MustCompile(`"(.*)": (\d+),`).FindAllStringSubmatch(table(t), -1) {
		name, want := m[1], m[2]
		got, err := expected(llvm.Tool(t, "clang"), name)
		if err == nil && got == 0 {
			got, err = expected(llvm.Tool(t, "clang"), name+"x")
		}
		if err != nil || strconv.Itoa(got) != want {
			t.Errorf("%s has %d values, the table has %s: %v", name, got, want, err)
		}
		options++
	}
	if options < 100 {
		t.Errorf("the table has %d options", options)
	}
}

// Options are classified by clang's treatment.
func TestTry(t *testing.T) {
	for _, want := range []option{
		{name: "-O2"},
		{name: "-g"},
		{name: "-I", values: 1},
		{name: "--sysroot", values: 1},
		{name: "-sectcreate", values: 3},
		{name: "-Xarch_", values: 1, prefix: true},
		{name: "-Xopenmp-target=", values: 1, prefix: true},
		{name: "-mllvm", values: 1},
		{name: "-mavx2"},
		{name: "-mcumode", amdgpu: true},
		{name: "-munsafe-fp-atomics", amdgpu: true},
		{name: "-no-such-option"},
	} {
		got := option{name: want.name}
		if err := try(llvm.Tool(t, "clang"), &got); err != nil || got != want {
			t.Errorf("%+v, want %+v: %v", got, want, err)
		}
	}
}

// The table of GCC's options has all that clang rejects, and no other.
func TestGCC(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(outputGCC)))
	if err != nil {
		t.Fatal(err)
	}
	var table []string
	for _, word := range strings.Fields(string(text)) {
		if len(word) > 1 && word[0] == '-' {
			table = append(table, word)
		}
	}
	clang := llvm.Tool(t, "clang")
	want, err := onlyOf(clang, []string{"gcc", "aarch64-linux-gnu-gcc"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(want, "-fno-canonical-system-headers") || len(want) < 500 {
		t.Errorf("clang rejects %d options: %q", len(want), want)
	}
	for _, option := range want {
		if !slices.Contains(table, option) {
			t.Errorf("%s is not in %s: run `go run ./tools/clangoptions CLANG GCC...`", option, outputGCC)
		}
	}
	rejected, err := onlyGCC(clang, table)
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range table {
		if !slices.Contains(rejected, option) {
			t.Errorf("%s has %s, which clang knows", outputGCC, option)
		}
	}
}

func TestGenerated(t *testing.T) {
	if !*all {
		t.Skip("with -all")
	}
	want, err := generate(llvm.Tool(t, "clang"))
	if err != nil {
		t.Fatal(err)
	}
	if table(t) != string(want) {
		t.Errorf("%s differs: run `go run ./tools/clangoptions`", output)
	}
}
