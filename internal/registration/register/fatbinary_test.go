package register

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

func TestFatBinaryUnderASymbol(t *testing.T) {
	for _, machine := range []uint16{elf.MachineX8664, elf.MachineAArch64} {
		var out content.Buffer
		f := FatBinary{Machine: machine, Symbol: "__hip_fatbin_1a", Content: content.Memory([]byte("fat"))}
		if err := f.Write(&out); err != nil {
			t.Fatal(err)
		}
		file, err := object.Parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for symbol, err := range file.Symbols() {
			if err != nil {
				t.Fatal(err)
			}
			if string(symbol.Name) != "__hip_fatbin_1a" {
				continue
			}
			found = true
			if symbol.Kind != object.Defined || !symbol.Global || symbol.Size != 3 {
				t.Errorf("the symbol is %+v", symbol)
			} else if s := file.Sections[symbol.Section]; string(s.Name) != ".hip_fatbin" || s.Align != 4096 || s.Size != 3 {
				t.Errorf("its section is %+v", s)
			}
		}
		if !bytes.Contains(out.Bytes(), []byte("fat")) {
			t.Error("the fat binary is not there")
		}
		if !found {
			t.Error("the symbol is not there")
		}
		for i := range file.Sections {
			if name := string(file.Sections[i].Name); strings.HasPrefix(name, ".init_array") {
				t.Errorf("section %s: something is registered", name)
			}
		}
	}
}

func TestFatBinaryErrors(t *testing.T) {
	for _, test := range []struct {
		f    FatBinary
		want string
	}{
		{FatBinary{Machine: elf.MachineX8664, Symbol: "a"}, "the fat binary is empty"},
		{FatBinary{Machine: elf.MachineX8664, Symbol: "a b", Content: content.Memory([]byte("x"))}, `symbol "a b" is not a C identifier`},
		{FatBinary{Machine: 3, Symbol: "a", Content: content.Memory([]byte("x"))}, "machine 3 is not x86-64 or AArch64"},
	} {
		var out content.Buffer
		if err := test.f.Write(&out); err == nil || err.Error() != test.want {
			t.Errorf("error is %v, expected %s", err, test.want)
		}
	}
}

func TestRequirement(t *testing.T) {
	for _, machine := range []uint16{elf.MachineX8664, elf.MachineAArch64} {
		var out content.Buffer
		r := Requirement{Machine: machine, Symbols: []string{"device link of //a", "other"}}
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		file, err := object.Parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		undefined := 0
		for symbol, err := range file.Symbols() {
			if err != nil {
				t.Fatal(err)
			}
			if symbol.Kind == object.Undefined && (string(symbol.Name) == "device link of //a" || string(symbol.Name) == "other") {
				undefined++
			}
		}
		if undefined != 2 {
			t.Errorf("%d of 2 symbols are undefined", undefined)
		}
	}
	var out content.Buffer
	if err := (&Requirement{Machine: elf.MachineX8664}).Write(&out); err == nil {
		t.Error("no symbol is no error")
	}
}
