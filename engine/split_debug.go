package engine

import (
	"context"
	"path"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// SplitDebugOptions are the options of SplitDebug.
type SplitDebugOptions struct {
	// Input is a linked ELF file, such as a code object.
	Input string
	// Output is the file without debug information, and DebugInfo that with the debug information and symbols.
	Output, DebugInfo string
}

// SplitDebug moves the debug information of a linked ELF file to another file. Debuggers find it by the last part of its
// name, which is in the section .gnu_debuglink of Output with a checksum.
func (s *Session) SplitDebug(ctx context.Context, opt SplitDebugOptions) (err error) {
	defer guard.Into(&err)()
	return s.transform(ctx, []string{opt.Input}, func(inputs []*files.Input, out *files.Outputs) error {
		output, err := out.Create(opt.Output)
		if err != nil {
			return err
		}
		debug, err := out.Create(opt.DebugInfo)
		if err != nil {
			return err
		}
		return in(inputs[0], object.SplitDebug(inputs[0].All(), path.Base(opt.DebugInfo), output, debug))
	})
}
