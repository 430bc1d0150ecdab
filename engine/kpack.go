package engine

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine/kpack"
	"github.com/rules-offload/rules_offload/engine/prune"
	"github.com/rules-offload/rules_offload/internal/files"
)

// KpackFile is a file that KpackFiles has read. Either Archive or Host is set.
type KpackFile struct {
	Name    string
	Archive *kpack.Archive
	Host    *kpack.Host
}

// KpackFiles calls fn with archives, and with libraries and programs that have a
// marker. The files are valid until fn returns.
func (s *Session) KpackFiles(ctx context.Context, names []string, fn func([]KpackFile) error) error {
	inputs, err := s.openAll(names)
	defer closeAll(inputs)
	if err != nil {
		return err
	}
	return files.Contain(func() error {
		var all []KpackFile
		for _, input := range inputs {
			f, err := openKpack(input)
			if err != nil {
				return err
			}
			all = append(all, f)
		}
		return fn(all)
	})
}

// openKpack reads an archive, or a file with a marker.
func openKpack(input *files.Input) (f KpackFile, err error) {
	f.Name = input.Name()
	if kpack.Is(input.Bytes()) {
		f.Archive, err = kpack.Parse(input.All())
	} else {
		f.Host, err = kpack.ParseHost(input.All())
	}
	return f, in(input, err)
}

// KpackExtractOptions are the options of KpackExtract.
type KpackExtractOptions struct {
	Input string
	// Binary is a key and Arch a target ID. They select the entry written to
	// Output.
	Binary, Arch string
	Output       string
	// OutputDir, if set, is the directory for all entries, or those for Arch.
	OutputDir string
}

// KpackExtract writes code objects of an archive to files and returns their names.
func (s *Session) KpackExtract(ctx context.Context, opt KpackExtractOptions) (written []string, err error) {
	input, err := s.files.Open(opt.Input)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	err = s.write(ctx, func(out *files.Outputs) error {
		a, err := kpack.Parse(input.All())
		if err != nil {
			return in(input, err)
		}
		chosen, err := chooseEntries(a, opt)
		if err != nil {
			return in(input, err)
		}
		if opt.OutputDir != "" {
			if err := out.MakeDir(opt.OutputDir); err != nil {
				return err
			}
		}
		outputs := make([]*files.Output, len(chosen))
		for i, e := range chosen {
			name := opt.Output
			if opt.OutputDir != "" {
				name = opt.OutputDir + "/" + entryFile(e)
			}
			if outputs[i], err = out.Create(name); err != nil {
				return err
			}
			written = append(written, name)
			if err := e.WriteTo(ctx, s.budget, outputs[i], a.Scheme); err != nil {
				return in(input, fmt.Errorf("%s for %s: %w", e.Key, e.Arch, err))
			}
			if err := outputs[i].Close(); err != nil {
				return err
			}
		}
		return nil
	})
	return written, err
}

// chooseEntries returns the entries to extract.
func chooseEntries(a *kpack.Archive, opt KpackExtractOptions) ([]*kpack.Entry, error) {
	var chosen []*kpack.Entry
	names := make(map[string]*kpack.Entry)
	for i := range a.Entries {
		e := &a.Entries[i]
		if opt.Binary != "" && e.Key != opt.Binary || opt.Arch != "" && e.Arch != opt.Arch {
			continue
		}
		if opt.OutputDir != "" {
			if err := safeKey(e.Key, e.Arch); err != nil {
				return nil, err
			}
			name := entryFile(e)
			if other := names[name]; other != nil {
				return nil, fmt.Errorf("%q for %s and %q for %s would have the same file name %s", other.Key, other.Arch, e.Key, e.Arch, name)
			}
			names[name] = e
		}
		chosen = append(chosen, e)
	}
	if len(chosen) == 0 {
		var have []string
		for i := range a.Entries {
			if len(have) == 20 {
				have = append(have, "...")
				break
			}
			have = append(have, a.Entries[i].Key+" for "+a.Entries[i].Arch)
		}
		what := strings.TrimSpace(opt.Binary + " for " + opt.Arch)
		return nil, fmt.Errorf("no entry %s: found %s", what, strings.Join(have, ", "))
	}
	return chosen, nil
}

// safeKey reports an error for keys that cannot be used in a file name.
func safeKey(key, arch string) error {
	for _, s := range []string{key, arch} {
		slashed := strings.ReplaceAll(s, `\`, "/")
		switch {
		case s == "" || strings.ContainsRune(s, 0) || path.IsAbs(slashed) || len(slashed) > 1 && slashed[1] == ':' && strings.Contains(slashed, "/"):
		case strings.Contains("/"+slashed+"/", "/../"):
		default:
			continue
		}
		return fmt.Errorf("key %.200q for %.100q: expected a file name that is not empty or absolute, without .. and NUL", key, arch)
	}
	return nil
}

// entryFile returns the name of the file for an entry.
func entryFile(e *kpack.Entry) string {
	return strings.NewReplacer("/", "_", `\`, "_", ":", "_", "#", "_").Replace(e.Key + "-" + e.Arch + ".hsaco")
}

// KpackVerify checks archives, and libraries and programs with a marker,
// individually and against each other. The error is about the first problem that
// is not a warning.
func (s *Session) KpackVerify(ctx context.Context, names []string) (problems []kpack.Problem, err error) {
	inputs, err := s.openAll(names)
	defer closeAll(inputs)
	if err != nil {
		return nil, err
	}
	v := kpack.Verifier{Budget: s.budget}
	err = files.Contain(func() error {
		for _, input := range inputs {
			f, err := openKpack(input)
			if err != nil {
				return err
			}
			if f.Archive != nil {
				v.Archive(ctx, f.Name, f.Archive)
			} else {
				v.Host(f.Name, f.Host, input.All())
			}
		}
		v.Finish()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return v.Err()
	})
	return v.Problems, err
}

// WrapperMagic returns the name of the magic of a wrapper.
func WrapperMagic(w prune.Wrapper) string {
	if w.Magic == prune.MagicPack {
		return "HIPK"
	}
	return "HIPF"
}
