package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/devicecode/ptx"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// DataOptions are the options of Data. Either Input and Output, or Header, or all
// three must be set.
type DataOptions struct {
	// Triple is the host triple: x86-64 or AArch64 with ELF, or x86-64 Windows. It
	// is not required if only the header is written.
	Triple string
	// Symbol is the name of the data in C.
	Symbol string
	// Align is the alignment of the data in bytes, a power of two; 0 means 16.
	Align uint64
	// Input is a file that a runtime can load from memory: a bundle, compressed or
	// not, a code object, a cubin, a CUDA fat binary, PTX or SPIR-V.
	Input string
	// Output is the object file that holds the data.
	Output string
	// Header is the C header that declares the data. Its content does not depend
	// on Input.
	Header string
}

// Data writes an object that holds a file with device code as constant data, and
// a header that declares it, for programs that load it from memory
// (hipModuleLoadData). It appends the zero byte that CUDA requires after PTX;
// the size does not include that byte.
func (s *Session) Data(ctx context.Context, opt DataOptions) (err error) {
	defer guard.Into(&err)()
	if err := register.CheckIdentifier(opt.Symbol); err != nil {
		return err
	}
	var input *files.Input
	d := register.Data{Symbol: opt.Symbol, Align: opt.Align}
	if opt.Output != "" {
		var err error
		if d.Machine, d.COFF, err = register.HostMachine(opt.Triple); err != nil {
			return err
		}
		if input, err = s.files.Open(opt.Input); err != nil {
			return err
		}
		defer input.Close()
	}
	return s.write(ctx, func(out *files.Outputs) error {
		if opt.Header != "" {
			header, err := out.Create(opt.Header)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(header, dataHeader(opt.Symbol)); err != nil {
				return err
			}
		}
		if input == nil {
			return nil
		}
		output, err := out.Create(opt.Output)
		if err != nil {
			return err
		}
		return in(input, guard.Contain(func() error {
			d.Content = input.All()
			data := d.Content.Mapped(guard.Inside)
			if err := loadable(data); err != nil {
				return err
			}
			if ptx.Is(data) {
				d.Size = int64(len(data))
				d.Content = content.Memory(append(data[:len(data):len(data)], 0))
			}
			return d.Write(output)
		}))
	})
}

// dataHeader returns the header that declares what Data embeds.
func dataHeader(symbol string) string {
	return fmt.Sprintf(`// Made by offload cc-data: a file with device code, and its size in bytes.
#ifndef OFFLOAD_DATA_%[1]s
#define OFFLOAD_DATA_%[1]s

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const unsigned char %[1]s[];
extern const size_t %[1]s_size;

#ifdef __cplusplus
}
#endif

#endif
`, symbol)
}

// loadable reports an error if no runtime loads data from memory.
func loadable(data []byte) error {
	const expected = "expected a bundle or a code object (or a cubin, PTX or SPIR-V)"
	const machineAt = 18
	switch format := object.Identify(data); {
	case len(data) == 0:
		return errors.New("found an empty file, " + expected)
	case format == object.OffloadBundle, format == object.OffloadBundleZ, format == object.CUDAFatbinary, format == object.SPIRV, ptx.Is(data):
		return nil
	case format.IsELF():
		if len(data) < machineAt+2 {
			return errors.New("found a truncated ELF file, " + expected)
		}
		if machine := binary.LittleEndian.Uint16(data[machineAt:]); machine != elf.MachineAMDGPU && machine != elf.MachineCUDA {
			return fmt.Errorf("found %s for machine %d, which is not a GPU, %s", format, machine, expected)
		}
		return nil
	case check.IsLFSPointer(data):
		return errors.New("found a Git LFS pointer, " + expected + "; run git lfs pull")
	case format == object.OffloadBinary:
		return errors.New("found an offload binary, " + expected + "; runtimes load it only from programs that register it")
	case format == object.Bitcode:
		return errors.New("found LLVM bitcode, " + expected + "; link it to a code object first")
	case format == object.Unknown:
		return errors.New("found no device code, " + expected)
	default:
		return fmt.Errorf("%s, %s", format, expected)
	}
}
