package main

import (
	"bytes"
	"debug/elf"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// textPrefix is the prefix of the section names of functions; the name of the function follows.
const textPrefix = ".text."

// readELF returns the functions of an object in the order of their sections, and the content of the common record of
// .eh_frame, without the size in front and the nops at the end. Both use certain units.
func readELF(object []byte, to units) (list []function, common []byte, err error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, nil, err
	}
	symbols, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, nil, err
	}
	for i, s := range f.Sections {
		name, ok := strings.CutPrefix(s.Name, textPrefix)
		if !ok {
			continue
		}
		function := function{name: name}
		if function.code, err = s.Data(); err != nil {
			return nil, nil, err
		}
		for _, r := range f.Sections {
			if r.Type != elf.SHT_RELA || int(r.Info) != i {
				continue
			}
			data, err := r.Data()
			if err != nil {
				return nil, nil, err
			}
			entries := make([]elf.Rela64, len(data)/elf.Sym64Size)
			if err := binary.Read(bytes.NewReader(data), f.ByteOrder, entries); err != nil {
				return nil, nil, err
			}
			for _, e := range entries {
				function.relocs = append(function.relocs, reloc{e.Off, elf.R_TYPE64(e.Info), symbols[elf.R_SYM64(e.Info)-1].Name, e.Addend})
			}
		}
		list = append(list, function)
	}
	if len(list) == 0 {
		return nil, nil, nil
	}
	frames := f.Section(".eh_frame")
	if frames == nil {
		return nil, nil, errors.New("no .eh_frame")
	}
	data, err := frames.Data()
	if err != nil {
		return nil, nil, err
	}
	common, err = unwinding(data, list, to)
	return list, common, err
}

// unwinding sets the unwinding instructions of functions from the content of .eh_frame, whose records have the order
// of the functions, in certain units, and returns the content of the common record.
func unwinding(data []byte, list []function, to units) ([]byte, error) {
	const (
		commonHead   = 13 // up to the instructions: id, version 1, "zR", units, register, encoding
		commonUnits  = 8
		functionHead = 13 // the same: distance of the common record, address, size, no augmentation
	)
	var common []byte
	var from units
	for i := -1; len(data) > 0; i++ {
		if len(data) < 4 || len(data)-4 < int(binary.LittleEndian.Uint32(data)) {
			return nil, errors.New("a record of .eh_frame is cut short")
		}
		body := data[4:][:binary.LittleEndian.Uint32(data)]
		data = data[4+len(body):]
		if len(body) < functionHead || i >= len(list) {
			return nil, fmt.Errorf(".eh_frame has other records than one for each of %d functions", len(list))
		}
		if i < 0 {
			from = units{code: int(body[commonUnits]), data: 0x80 - int(body[commonUnits+1])} // the second is negative
			common = append(common, body[:commonHead]...)
			common[commonUnits], common[commonUnits+1] = byte(to.code), byte(0x80-to.data)
		}
		code, err := convert(body[functionHead:], from, to)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			common = append(common, code...)
			continue
		}
		if size := binary.LittleEndian.Uint32(body[8:]); int(size) != len(list[i].code) {
			return nil, fmt.Errorf("record %d of .eh_frame has %d bytes of code, and %s %d", i, size, list[i].name, len(list[i].code))
		}
		list[i].unwind = code
	}
	return common, nil
}

// units are the units of DWARF call frame instructions, in bytes: of distances in code, and of places below the
// address of the frame.
type units struct{ code, data int }

// convert returns DWARF call frame instructions in other units, without the padding at the end
// of the record.
func convert(code []byte, from, to units) ([]byte, error) {
	var result []byte
	for at := 0; at < len(code); {
		op := code[at]
		at++
		operands := 0 // bytes; all values are below 128
		switch {
		case op == 0: // DW_CFA_nop
			continue
		case op&0xc0 == 0x40, op&0xc0 == 0xc0: // DW_CFA_advance_loc, DW_CFA_restore
		case op == 0x2d: // DW_CFA_AARCH64_negate_ra_state
		case op&0xc0 == 0x80, op == 0x02, op == 0x0e: // DW_CFA_offset, DW_CFA_advance_loc1, DW_CFA_def_cfa_offset
			operands = 1
		case op == 0x0c: // DW_CFA_def_cfa
			operands = 2
		default:
			return nil, fmt.Errorf("unknown instruction 0x%02x in .eh_frame", op)
		}
		if at+operands > len(code) {
			return nil, errors.New("an instruction in .eh_frame is cut short")
		}
		values := code[at : at+operands]
		at += operands
		switch {
		case op&0xc0 == 0x40:
			result = advance(result, scale(int(op&0x3f), from.code, to.code))
		case op == 0x02:
			result = advance(result, scale(int(values[0]), from.code, to.code))
		case op&0xc0 == 0x80:
			result = append(result, op, byte(scale(int(values[0]), from.data, to.data)))
		default:
			result = append(append(result, op), values...)
		}
	}
	return result, nil
}

// scale converts n from one unit to another. Code and frames consist of whole instructions and registers.
func scale(n, from, to int) int {
	if n*from%to != 0 {
		panic(fmt.Sprintf("%d bytes are no multiple of %d", n*from, to))
	}
	return n * from / to
}

// advance appends the instruction that advances the code address by n units.
func advance(code []byte, n int) []byte {
	if n < 0x40 {
		return append(code, 0x40|byte(n)) // DW_CFA_advance_loc
	}
	return append(code, 0x02, byte(n)) // DW_CFA_advance_loc1
}

// readCOFF returns the functions of an object in the order of their sections. Each has a section .xdata, in the same
// order.
func readCOFF(object []byte) ([]function, error) {
	f, err := pe.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	var list []function
	var records [][]byte
	for _, s := range f.Sections {
		data, err := s.Data()
		if err != nil {
			return nil, err
		}
		if s.Name == ".xdata" {
			records = append(records, data)
		}
		name, ok := strings.CutPrefix(s.Name, textPrefix)
		if !ok {
			continue
		}
		function := function{name: name, code: data}
		for _, r := range s.Relocs {
			symbol, err := f.COFFSymbols[r.SymbolTableIndex].FullName(f.StringTable)
			if err != nil {
				return nil, err
			}
			function.relocs = append(function.relocs, reloc{offset: uint64(r.VirtualAddress), typ: uint32(r.Type), symbol: symbol})
		}
		list = append(list, function)
	}
	if len(records) != len(list) {
		return nil, fmt.Errorf("%d records in .xdata for %d functions", len(records), len(list))
	}
	for i := range list {
		list[i].unwind = records[i]
	}
	return list, nil
}
