package register

import (
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
)

// HostMachine returns the ELF machine number of a host triple, and reports whether
// its objects are COFF.
func HostMachine(triple string) (machine uint16, coff bool, err error) {
	t := target.ParseTriple(target.Normalize(triple, 4))
	if t.Format == "coff" && t.Arch == "x86_64" && !strings.HasPrefix(triple, "x86_64h") {
		return elf.MachineX8664, true, nil
	}
	if env := string(t.Env); t.Format == "elf" && !strings.HasSuffix(env, "x32") && !strings.HasSuffix(env, "ilp32") {
		arch, _, _ := strings.Cut(triple, "-") // as spelt, because t.Arch may stand for several
		switch arch {
		case "x86_64", "amd64":
			return elf.MachineX8664, false, nil
		case "aarch64", "arm64":
			return elf.MachineAArch64, false, nil
		}
	}
	return 0, false, fmt.Errorf("triple %q: expected x86-64 or AArch64 ELF, such as x86_64-unknown-linux-gnu, or x86-64 Windows", triple)
}

// EntrySymbols returns the symbols of the offload entries that an object
// defines.
func EntrySymbols(data []byte) ([]string, error) {
	file, err := object.Parse(data)
	if err != nil {
		return nil, err
	}
	var names []string
	for symbol, err := range file.Symbols() {
		if err != nil {
			return nil, err
		}
		if symbol.Global && symbol.Kind == object.Defined && strings.HasPrefix(string(symbol.Name), embedding.EntryPrefix) {
			names = append(names, string(symbol.Name))
		}
	}
	return names, nil
}
