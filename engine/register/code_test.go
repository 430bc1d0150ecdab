package register

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCode compares the tables with how llvm-objdump reads the code: the bytes,
// and the assembler beside them, which is what makes the tables readable.
func TestCode(t *testing.T) {
	for name, m := range map[string]*machine{"x86_64": &x86, "aarch64": &aarch64, "windows": &windows} {
		for kind := OpenMP; kind <= SYCL; kind++ {
			t.Run(fmt.Sprintf("%s-%s", name, kind), func(t *testing.T) {
				lists := [][]instr{m.registerOpenMP, m.unregisterOpenMP}
				switch kind {
				case OpenMP:
				case SYCL:
					lists = [][]instr{m.sycl("register", false), m.sycl("unregister", false), m.sycl("register", true), m.sycl("unregister", true)}
				default:
					lists = [][]instr{m.register(kind), m.unregister(kind), m.globals(kind)}
				}
				var got []string
				for _, list := range lists {
					got = append(got, listing(list, m.words)...)
				}
				if diff := cmp.Diff(disassembly(t, "testdata/"+name+"-"+kind.String()+".txt"), got); diff != "" {
					t.Errorf("disassembled (-), in the table (+):\n%s", diff)
				}
			})
		}
	}
}

// listing returns the instructions of a function: the bytes as assembled, and
// the assembler, without what depends on the place of something.
func listing(list []instr, words bool) []string {
	code, _ := assemble(list, words)
	var lines []string
	for i := range list {
		in := &list[i]
		if in.label != "" {
			continue
		}
		bytes := code[:in.size()]
		code = code[in.size():]
		text := hex.EncodeToString(bytes)
		if words {
			text = fmt.Sprintf("%08x", binary.LittleEndian.Uint32(bytes))
		}
		asm := in.asm
		if in.fix != fixNone {
			asm, _, _ = strings.Cut(asm, " ")
		}
		lines = append(lines, text+" "+asm)
	}
	return lines
}

// disassembly reads the output of llvm-objdump into the form of listing.
func disassembly(t *testing.T, name string) []string {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		code, asm, ok := strings.Cut(line, "\t")
		if !ok || strings.HasPrefix(asm, "int3") || strings.HasPrefix(asm, "udf") {
			continue // a comment, a label, or what is between functions
		}
		asm, _, _ = strings.Cut(asm, "//")
		moved := strings.Contains(asm, "(%rip)") || strings.Contains(asm, "<") || strings.HasSuffix(strings.TrimSpace(asm), ", #0x0") || strings.HasPrefix(asm, "str") && strings.HasSuffix(strings.TrimSpace(asm), "[x8]") || strings.HasPrefix(asm, "ldr") && strings.HasSuffix(strings.TrimSpace(asm), "[x8]")
		asm, _, _ = strings.Cut(asm, " # ")
		fields := strings.Fields(asm)
		if moved {
			fields = fields[:1]
		}
		lines = append(lines, strings.ReplaceAll(strings.TrimSpace(code), " ", "")+" "+strings.Join(fields, " "))
	}
	return lines
}

// TestBranches checks that the distances of short branches fit.
func TestBranches(t *testing.T) {
	for kind := HIP; kind <= CUDA; kind++ {
		for _, list := range [][]instr{x86Globals(kind), windowsGlobals(kind)} {
			at, labels := 0, map[string]int{}
			for i := range list {
				if list[i].label != "" {
					labels[list[i].label] = at
				}
				at += list[i].size()
			}
			at = 0
			for i := range list {
				at += list[i].size()
				if distance := labels[list[i].to] - at; list[i].fix == fixRel8 && distance != int(int8(distance)) {
					t.Errorf("%s: %s: %d bytes are too far for a short branch", kind, list[i].asm, distance)
				}
			}
		}
	}
}
