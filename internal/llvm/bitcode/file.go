// Package bitcode reads the parts of LLVM bitcode that offloading requires: the
// symbols for an archive's index, the images that clang embeds, and the libraries that
// a module names.
//
// It follows the bitstream format and the records of LLVM's bitcode writer
// (https://llvm.org/docs/BitCodeFormat.html), including those before the string
// table (LLVM 4 and older). Instructions are skipped. Input is not trusted:
// every length is checked against the available bytes.
package bitcode

import (
	"encoding/binary"
)

// Block IDs.
const (
	blockInfoBlock      = 0
	moduleBlock         = 8
	constantsBlock      = 11
	functionBlock       = 12
	identificationBlock = 13
	valueSymtabBlock    = 14
	metadataBlock       = 15
	typeBlock           = 17
	strtabBlock         = 23
	symtabBlock         = 25
)

const (
	magic        = 0xdec04342 // "BC" C0 DE
	wrapperMagic = 0x0b17c0de
	wrapperSize  = 20
)

// Is reports whether data begins like bitcode, with or without the wrapper
// header that Darwin's tools prepend.
func Is(data []byte) bool {
	if len(data) < 4 {
		return false
	}
	m := binary.LittleEndian.Uint32(data)
	return m == magic || m == wrapperMagic
}

// file is the outermost layer of a bitcode file.
type file struct {
	data    []byte // without the wrapper
	modules []module

	symtab       []byte // the linker's symbol table, see irsymtab.go
	symtabStrtab []byte // the string table of symtab
}

// module is a module of a file. LLVM writes several for split ThinLTO units.
type module struct {
	data   []byte // of the whole file
	pos    uint64 // the bit after the block ID
	strtab []byte // names of global values
}

// open finds the modules and tables of a bitcode file.
func open(data []byte) (*file, error) {
	data, err := unwrap(data)
	if err != nil {
		return nil, err
	}
	f := &file{data: data}
	c := newCursor(data, 32)
	named := 0          // number of modules that have a string table
	identified := false // after an identification block, before its module
	for c.err == nil && c.pos+64 < c.end {
		// Fewer bytes cannot hold a block; some tools append padding.
		e, id := c.next()
		if e == entryRecord {
			c.begin(id)
			continue
		}
		if e == entryEnd {
			break
		}
		if identified && id != moduleBlock {
			break
		}
		switch id {
		case blockInfoBlock:
			c.blockInfo()
		case identificationBlock:
			c.identification()
			identified = true
		case moduleBlock:
			identified = false
			f.modules = append(f.modules, module{data: data, pos: c.pos})
			c.skipBlock()
		case strtabBlock:
			// A string table belongs to all earlier modules that do not have one.
			strtab := c.table(id)
			for ; named < len(f.modules); named++ {
				f.modules[named].strtab = strtab
			}
			if f.symtab != nil && f.symtabStrtab == nil {
				f.symtabStrtab = strtab
			}
		case symtabBlock:
			if t := c.table(id); f.symtab == nil {
				f.symtab = t
			}
		default:
			c.skipBlock()
		}
	}
	if identified {
		c.fail("no module after the identification block")
	}
	return f, c.err
}

// unwrap checks the signature and removes the wrapper header.
func unwrap(data []byte) ([]byte, error) {
	if !Is(data) {
		return nil, fault(0, "bitcode at byte 0x0: no bitcode signature")
	}
	if len(data)%4 != 0 {
		return nil, fault(int64(len(data)), "bitcode of %d bytes: not a multiple of 4, was it cut short?", len(data))
	}
	if binary.LittleEndian.Uint32(data) == magic {
		return data, nil
	}
	if len(data) < wrapperSize {
		return nil, fault(0, "bitcode at byte 0x0: wrapper header needs %d bytes, found %d", wrapperSize, len(data))
	}
	off := uint64(binary.LittleEndian.Uint32(data[8:]))
	size := uint64(binary.LittleEndian.Uint32(data[12:]))
	if off+size > uint64(len(data)) {
		return nil, fault(8, "bitcode at byte 0x8: wrapped offset %#x + size %#x passes the end of the file (%d bytes)", off, size, len(data))
	}
	data = data[off : off+size : off+size]
	if len(data) < 4 || binary.LittleEndian.Uint32(data) != magic {
		return nil, fault(int64(off), "bitcode at byte %#x: no bitcode signature after the wrapper header", off)
	}
	return data, nil
}

// identification checks the identification block.
func (c *cursor) identification() {
	const epoch = 2
	c.records(identificationBlock, func(code uint64) {
		if code == epoch {
			if v, ok := c.operand(); ok && v != 0 {
				c.fail("bitcode of epoch %d, expected 0", v)
			}
		}
	})
}

// table returns the blob in a string or symbol table block.
func (c *cursor) table(id uint64) (t []byte) {
	const tableBlob = 1
	c.records(id, func(code uint64) {
		if code == tableBlob && c.rest != nil {
			t = c.text()
		}
	})
	return t
}

// walk reads the module block. It calls record for each record, with the cursor
// after its code, and block for each block. It skips a block for which block
// returns false.
func (m module) walk(record func(c *cursor, code uint64), block func(c *cursor, id uint64) bool) error {
	c := newCursor(m.data, m.pos)
	c.enter(moduleBlock)
	for c.err == nil {
		switch e, id := c.next(); e {
		case entryEnd:
			return c.err
		case entryBlock:
			if id == blockInfoBlock {
				c.blockInfo()
			} else if !block(c, id) {
				c.skipBlock()
			}
		case entryRecord:
			record(c, c.begin(id))
		}
	}
	return c.err
}
