package report

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/installed/coverage"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/storage/scratch"
)

// Redundant is a group of architectures whose images have equal instructions, so that images for
// a generic target can replace them. Sizes are in bytes.
type Redundant struct {
	// Archs are the target IDs, by name.
	Archs []string `json:"archs"`
	// Generic is the target ID that serves them all.
	Generic string `json:"generic"`
	// Images is the number of images, and Bytes their size.
	Images int   `json:"images"`
	Bytes  int64 `json:"bytes"`
	// Saved is Bytes without the largest image of each set of equal ones.
	Saved int64 `json:"saved"`
}

// equalImages are images of a file whose sections with code and constants have equal bytes, for
// several processors that have a common generic processor.
type equalImages struct {
	archs   []string
	generic string // target ID
	images  []*kernels.Image
}

// equalCode returns the sets of images of a file with equal bytes of code. This alone does not make
// their instructions equal: one word is v_mad_mix_f32 on gfx900 and v_fma_mix_f32 on gfx906.
func equalCode(images []kernels.Image) []*equalImages {
	var list []*equalImages
	index := make(map[string]*equalImages)
	for i := range images {
		img := &images[i]
		generic := coverage.GenericOf(img.Target.Processor)
		if img.Format != kernels.CodeObject || img.Empty || img.CodeHash == "" || generic == "" {
			continue
		}
		generic += strings.TrimPrefix(img.Arch, img.Target.Processor) // with the same features
		key := generic + " " + img.CodeHash
		set := index[key]
		if set == nil {
			set = &equalImages{generic: generic}
			index[key] = set
			list = append(list, set)
		}
		set.images = append(set.images, img)
		if at, found := slices.BinarySearch(set.archs, img.Arch); !found {
			set.archs = slices.Insert(set.archs, at, img.Arch)
		}
	}
	return slices.DeleteFunc(list, func(s *equalImages) bool { return len(s.archs) < 2 })
}

// FindRedundant sets Redundant. Images with equal bytes of code are redundant if objdump, the path of
// an llvm-objdump, prints the same instructions for each of them and its own processor, and for
// the generic processor: only instructions with one meaning on all of these processors are in a
// generic processor. read calls visit with the bytes of each image of a file.
func (r *Report) FindRedundant(ctx context.Context, objdump string, read func(ctx context.Context, file string, visit func(i int, data []byte) error) error) error {
	dir, err := scratch.New("offload-report-")
	if err != nil {
		return err
	}
	defer dir.Remove()
	groups := make(map[string]*Redundant)
	for _, f := range r.Files {
		sets := equalCode(f.Images)
		wanted := make(map[int]bool)
		for _, s := range sets {
			for _, img := range s.images {
				wanted[img.Index] = true
			}
		}
		if len(wanted) == 0 {
			continue
		}
		dumps := disassembler{program: objdump, dir: dir}
		err := read(ctx, f.Name, func(i int, data []byte) error {
			if !wanted[i] {
				return nil
			}
			return os.WriteFile(dumps.file(i), data, 0o600)
		})
		if err != nil {
			return err
		}
		for _, s := range sets {
			same, err := dumps.same(ctx, s)
			if err != nil {
				return err
			}
			if same {
				s.addTo(groups)
			}
		}
		for i := range wanted {
			os.Remove(dumps.file(i))
		}
	}
	r.Redundant = []Redundant{}
	for _, g := range groups {
		r.Redundant = append(r.Redundant, *g)
	}
	slices.SortFunc(r.Redundant, func(a, b Redundant) int {
		return cmp.Or(cmp.Compare(b.Saved, a.Saved), slices.Compare(a.Archs, b.Archs))
	})
	return nil
}

// addTo adds the images to the group of their architectures.
func (s *equalImages) addTo(groups map[string]*Redundant) {
	key := strings.Join(s.archs, " ")
	if groups[key] == nil {
		groups[key] = &Redundant{Archs: s.archs, Generic: s.generic}
	}
	g := groups[key]
	size, largest := int64(0), int64(0)
	for _, img := range s.images {
		size += img.Size
		largest = max(largest, img.Size)
	}
	g.Images += len(s.images)
	g.Bytes += size
	g.Saved += size - largest
}

// disassembler runs llvm-objdump on the images of a file.
type disassembler struct {
	program string
	dir     *scratch.Dir
}

// file returns the name of the file with an image.
func (d *disassembler) file(i int) string { return filepath.Join(d.dir.Path, strconv.Itoa(i)) }

// same reports whether the images have equal instructions, which the generic processor has, too.
func (d *disassembler) same(ctx context.Context, s *equalImages) (bool, error) {
	generic, _, _ := strings.Cut(s.generic, ":")
	var first *instructions
	seen := make(map[string]bool)
	for _, img := range s.images {
		if seen[img.Arch] { // with the same bytes of code
			continue
		}
		if _, err := os.Stat(d.file(img.Index)); err != nil {
			continue // a copy of an image that has the same place in the file
		}
		seen[img.Arch] = true
		processors := []string{img.Target.Processor}
		if first == nil {
			processors = append(processors, generic)
		}
		for _, processor := range processors {
			got, err := d.run(ctx, d.file(img.Index), processor)
			if err != nil {
				return false, err
			}
			if first == nil {
				first = got
			}
			if got.unknown || got.count == 0 || !bytes.Equal(got.hash.Sum(nil), first.hash.Sum(nil)) {
				return false, nil
			}
		}
	}
	return len(seen) == len(s.archs), nil
}

// run disassembles an image for a processor.
func (d *disassembler) run(ctx context.Context, file, processor string) (*instructions, error) {
	out, errs := &instructions{hash: sha256.New()}, new(bytes.Buffer)
	c := process.Command{Args: []string{d.program, "-d", "--mcpu=" + processor, "--no-show-raw-insn", file}, Env: d.dir.Environment(os.Environ()), Stdout: out, Stderr: errs}
	if err := c.Run(ctx); err != nil {
		return nil, fmt.Errorf("%s: cannot disassemble code for %s: %w: %s", d.program, processor, err, strings.TrimSpace(errs.String()))
	}
	// A processor that it does not know is an unknown instruction set.
	out.unknown = out.unknown || strings.Contains(errs.String(), processor)
	out.line()
	return out, nil
}

// instructions is a writer for the output of llvm-objdump: a hash of its instructions, without their addresses.
type instructions struct {
	hash    hash.Hash
	count   int
	unknown bool // some code is not an instruction of the processor
	rest    []byte
}

// Write implements io.Writer.
func (o *instructions) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, after, found := bytes.Cut(p, []byte{'\n'})
		o.rest = append(o.rest, line...)
		if !found {
			return n, nil
		}
		o.line()
		p = after
	}
}

// line ends a line. Instructions begin with white space, and a comment has their address. Other
// lines have names of symbols and of the file.
func (o *instructions) line() {
	line := o.rest
	o.rest = o.rest[:0]
	if len(line) == 0 || line[0] != '\t' && line[0] != ' ' {
		return
	}
	line, _, _ = bytes.Cut(line, []byte("//"))
	line = bytes.TrimSpace(line)
	o.unknown = o.unknown || bytes.HasPrefix(line, []byte(".")) && !bytes.Equal(line, []byte("...")) || bytes.Contains(line, []byte("<unknown>"))
	o.count++
	o.hash.Write(append(line, '\n'))
}
