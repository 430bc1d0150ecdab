package offload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeFiles writes files to a new directory.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMakefileFunctions(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.cu": "", "b.cu": ""})
	for text, want := range map[string]string{
		"$(LIST:.cu=.o)":                           "x.o y.o",
		"$(LIST:%.cu=out/%.o)":                     "out/x.o out/y.o",
		"$(patsubst %.cu,%.o,$(LIST))":             "x.o y.o",
		"$(subst x,z,${LIST})":                     "z.cu y.cu",
		"$(filter x%,$(LIST))":                     "x.cu",
		"$(filter-out x%,$(LIST))":                 "y.cu",
		"$(addprefix -I,a b)":                      "-Ia -Ib",
		"$(addsuffix .o,$(basename $(LIST)))":      "x.o y.o",
		"$(notdir a/b c/d)":                        "b d",
		"$(dir a/b)":                               "a/",
		"$(sort b a b)":                            "a b",
		"$(firstword $(LIST)) $(lastword $(LIST))": "x.cu y.cu",
		"$(foreach d,a b,-I$(d))":                  "-Ia -Ib",
		"$(if $(NONE),yes,no)":                     "no",
		"$(or $(NONE),$(LIST))":                    "x.cu y.cu",
		"$(wildcard *.cu)":                         "a.cu b.cu",
		"$(shell touch evil)":                      "",
		"$(SELF) $(A":                              " ",
		"$$(LIST) $@":                              "$(LIST) ",
	} {
		m := &makefile{root: dir, vars: map[string]variable{"LIST": {value: "x.cu y.cu"}, "SELF": {value: "$(SELF)"}}}
		if got := m.expand(text); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	got := parseFlags("dir", words(`hipcc -I ../inc -Isub -I/usr/include -isystem third -D X=1 -DS="a b" -O2 -O3 -g -Wall -fopenmp -fgpu-rdc `+
		`--offload-arch=gfx90a -munsafe-fp-atomics -lrocblas -lm -l pthread -lamdhip64 -o out -c x.cu -mllvm -opt -Xlinker -z`))
	want := flags{
		includes: []string{"inc", "dir/sub", "dir/third"},
		copts:    []string{"-DX=1", "'-DS=a b'", "-O3", "-fopenmp", "-munsafe-fp-atomics"},
		linkopts: []string{"-lm", "-lpthread"},
		libs:     []string{"rocblas"},
		rdc:      true,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(flags{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMakefileGrowth evaluates a Makefile whose values double 60 times.
func TestMakefileGrowth(t *testing.T) {
	var text strings.Builder
	for c := 'A'; c < 'A'+60; c++ {
		text.WriteString("V" + string(c) + " = $(V" + string(c+1) + ")$(V" + string(c+1) + ")\n")
	}
	dir := writeFiles(t, map[string]string{"Makefile": text.String() + "all: $(VA)\n\thipcc $(VA) -o all\n"})
	if h := readMakefile(dir, "", "Makefile"); h == nil || len(h.units) != 0 {
		t.Errorf("%v", h)
	}
}

// TestCMakeGrowth evaluates variables that double 60 times.
func TestCMakeGrowth(t *testing.T) {
	text := "set(A a)\nset(B b)\n" + strings.Repeat("set(A ${A} ${A})\nset(B \"${B}${B}\")\n", 60) + "add_executable(a a.cu ${A} ${B})\n"
	dir := writeFiles(t, map[string]string{"CMakeLists.txt": text, "a.cu": ""})
	if h := readCMake(dir, ""); h == nil || len(h.units) != 1 {
		t.Errorf("%v", h)
	}
}

func FuzzMakefile(f *testing.F) {
	f.Add("CC = hipcc\nifeq ($(A),b)\nX += $(A:.c=.o)\nelse\nendif\na: a.cu ; hipcc $< -o $@\n%.o: %.cu\n\t$(CC) -c $<\ndefine x\nendef\n$(foreach a,b,$(a)) ${A")
	f.Fuzz(func(t *testing.T, text string) {
		readMakefile(writeFiles(t, map[string]string{"Makefile": text, "a.cu": ""}), "", "Makefile")
	})
}

func FuzzCMake(f *testing.F) {
	f.Add("set(A \"b;${C}\" x) # c (\nif(A)\nelseif(NOT CUDA)\nelse()\nendif()\nadd_executable(a ${A} a.cu)\ntarget_link_libraries(a PRIVATE b)\nf(SOURCES a.cu NAME)\nfile(GLOB_RECURSE A *.cu)")
	f.Add("f(${")
	f.Fuzz(func(t *testing.T, text string) {
		readCMake(writeFiles(t, map[string]string{"CMakeLists.txt": text, "a.cu": ""}), "")
	})
}
