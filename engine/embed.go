package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// EmbedOptions are the options of Embed.
type EmbedOptions struct {
	// Input is a relocatable host object, ELF or COFF.
	Input string
	// Binaries are offload binaries. Other files are rejected.
	Binaries []string
	Output   string
}

// Embed writes a copy of a host object with offload binaries added, after those
// it already has. They are stored in the section where device linkers look for
// them and where clang's -fembed-offload-object puts them (clang's
// ClangOffloadPackager documentation).
func (s *Session) Embed(ctx context.Context, opt EmbedOptions) (err error) {
	defer guard.Into(&err)()
	return s.transform(ctx, append([]string{opt.Input}, opt.Binaries...), func(inputs []*files.Input, out *files.Outputs) error {
		host := inputs[0]
		edits, err := untypedOffloading(host.All())
		if err != nil {
			return in(host, err)
		}
		for _, input := range inputs[1:] {
			if err := checkOffloadBinaries(input.All()); err != nil {
				return in(input, err)
			}
			// One section for each binary: linkers join sections of the same name.
			edits.Add = append(edits.Add, object.OffloadingSection(input.All()))
		}
		output, err := out.Create(opt.Output)
		if err != nil {
			return err
		}
		return in(host, object.Rewrite(host.All(), edits, output))
	})
}

// checkOffloadBinaries checks that c consists of offload binaries.
func checkOffloadBinaries(c content.Content) error {
	if !offloadbinary.Is(c.Mapped(guard.Inside)) {
		return fmt.Errorf("found %s, expected an offload binary", check.Format(c.Mapped(guard.Inside)))
	}
	for _, err := range offloadbinary.Parse(c, offloadbinary.Options{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// untypedOffloading checks that c is a relocatable object. It returns the edits
// that set the section type of offload binaries that objcopy added by name
// only: some linkers fail if sections of both types have the same name.
func untypedOffloading(c content.Content) (object.Edits, error) {
	var edits object.Edits
	format := object.Identify(c.Mapped(guard.Inside))
	if format != object.ELFRelocatable && format != object.COFFObject {
		if format == object.Unknown {
			return edits, errors.New("found a file of an unknown format, expected an ELF or COFF object")
		}
		return edits, fmt.Errorf("found %s, expected an ELF or COFF object", format)
	}
	file, err := object.Parse(c.Mapped(guard.Inside))
	if err != nil || !format.IsELF() {
		return edits, err
	}
	untyped := false
	var add []object.NewSection
	for i := range file.Sections {
		section := &file.Sections[i]
		if string(section.Name) != embedding.OffloadSection {
			continue
		}
		data, err := file.Data(i)
		if err != nil {
			return edits, err
		}
		body := c.Slice(int64(section.Offset), int64(len(data)))
		if section.Type != elf.ShtOffloading {
			untyped = true
			if err := checkOffloadBinaries(body); err != nil {
				return edits, fmt.Errorf("section %s: %w", embedding.OffloadSection, err)
			}
		}
		add = append(add, object.OffloadingSection(body))
	}
	if untyped {
		edits.Remove = func(name []byte) bool { return string(name) == embedding.OffloadSection }
		edits.Add = add
	}
	return edits, nil
}
