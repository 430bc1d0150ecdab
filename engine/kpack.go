package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// KpackFile describes an archive, or a library or program whose code is in archives. Either Archive
// or Host is set. Its JSON form is that of the one that is set.
type KpackFile struct {
	Archive *KpackArchive
	Host    *KpackHost
}

// MarshalJSON implements json.Marshaler.
func (f KpackFile) MarshalJSON() ([]byte, error) {
	if f.Host != nil {
		return json.Marshal(f.Host)
	}
	return json.Marshal(f.Archive)
}

// KpackArchive describes an archive.
type KpackArchive struct {
	File          string `json:"file"`
	Kind          string `json:"kind"` // "archive"
	FormatVersion int    `json:"format_version"`
	Group         string `json:"group"`
	Family        string `json:"family"`
	// Archs are the target IDs for which a runtime searches the archive.
	Archs   []string     `json:"archs"`
	Scheme  string       `json:"scheme"` // of compression, "none" or "zstd-per-kernel"
	Entries []KpackEntry `json:"entries"`
}

// KpackEntry describes a code object in an archive. Sizes are in bytes.
type KpackEntry struct {
	Key string `json:"key"`
	// Binary and Index are the parts of a key of the form BINARY#INDEX; Index is nil for other keys.
	Binary   string         `json:"binary"`
	Index    *int           `json:"index"`
	Arch     string         `json:"arch"`
	Type     string         `json:"type"`
	Ordinal  int            `json:"ordinal"`
	Size     int64          `json:"size"`
	Stored   int64          `json:"stored"` // compressed
	Metadata map[string]any `json:"metadata"`
}

// KpackHost describes a library or program whose code is in archives.
type KpackHost struct {
	File        string         `json:"file"`
	Kind        string         `json:"kind"` // "host"
	KernelName  string         `json:"kernel_name"`
	SearchPaths []string       `json:"search_paths"`
	Wrappers    []KpackWrapper `json:"wrappers"`
}

// KpackWrapper describes the record that a library passes to the HIP runtime for one source.
type KpackWrapper struct {
	Index int `json:"index"`
	// Magic is "HIPK" for code in archives, "HIPF" for code in the library.
	Magic string `json:"magic"`
	// CodeObject is the number of the code object in the archives.
	CodeObject uint32 `json:"co_index"`
}

// KpackList describes archives, and libraries and programs that have a marker.
func (s *Session) KpackList(ctx context.Context, names []string) (list []KpackFile, err error) {
	defer guard.Into(&err)()
	err = s.readKpacks(names, func(input *files.Input, a *kpack.Archive, h *kpack.Host) {
		if h != nil {
			list = append(list, KpackFile{Host: describeHost(input.Name(), h)})
		} else {
			list = append(list, KpackFile{Archive: describeArchive(input.Name(), a)})
		}
	}, nil)
	return list, err
}

// readKpacks calls fn with archives, and with files that have a marker, and then end, if it is not nil,
// while all of them are open.
func (s *Session) readKpacks(names []string, fn func(input *files.Input, a *kpack.Archive, h *kpack.Host), end func() error) error {
	inputs, err := s.openAll(names)
	defer closeAll(inputs)
	if err != nil {
		return err
	}
	return guard.Contain(func() error {
		for _, input := range inputs {
			var a *kpack.Archive
			var h *kpack.Host
			var err error
			if kpack.Is(input.Mapped(guard.Inside)) {
				a, err = kpack.Parse(input.All())
			} else {
				h, err = kpack.ParseHost(input.All())
			}
			if err != nil {
				return in(input, err)
			}
			fn(input, a, h)
		}
		if end == nil {
			return nil
		}
		return end()
	})
}

func describeHost(name string, h *kpack.Host) *KpackHost {
	d := &KpackHost{File: name, Kind: "host", KernelName: h.Name, SearchPaths: h.SearchPaths, Wrappers: []KpackWrapper{}}
	for i, w := range h.Wrappers {
		magic := "HIPF"
		if w.Magic == embedding.MagicKpack {
			magic = "HIPK"
		}
		d.Wrappers = append(d.Wrappers, KpackWrapper{i, magic, w.Index})
	}
	return d
}

func describeArchive(name string, a *kpack.Archive) *KpackArchive {
	d := &KpackArchive{
		File: name, Kind: "archive", FormatVersion: 1, Group: a.Group, Family: a.Family, Archs: a.Archs,
		Scheme: string(a.Scheme), Entries: []KpackEntry{},
	}
	for _, e := range a.Sorted() {
		binary, index, ok := kpack.SplitKey(e.Key)
		entry := KpackEntry{
			Key: e.Key, Binary: binary, Arch: e.Arch, Type: e.Type, Ordinal: e.Ordinal, Size: e.Size,
			Stored: e.Stored.Len(), Metadata: e.Metadata,
		}
		if ok {
			entry.Index = &index
		}
		d.Entries = append(d.Entries, entry)
	}
	return d
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
	defer guard.Into(&err)()
	err = s.transform(ctx, []string{opt.Input}, func(inputs []*files.Input, out *files.Outputs) error {
		input := inputs[0]
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
		names := make(map[string]bool)
		for _, e := range chosen {
			name := opt.Output
			if opt.OutputDir != "" {
				number := 1
				for name = entryFile(e, number); names[name]; name = entryFile(e, number) {
					number++
				}
				names[name] = true
				name = opt.OutputDir + "/" + name
			}
			if _, err := out.WriteFile(name, func(w *files.Output) error {
				if err := e.WriteTo(ctx, s.budget, w, a.Scheme); err != nil {
					return in(input, fmt.Errorf("%s for %s: %w", e.Key, e.Arch, err))
				}
				return nil
			}); err != nil {
				return err
			}
			written = append(written, name)
		}
		return nil
	})
	return written, err
}

// chooseEntries returns the entries to extract.
func chooseEntries(a *kpack.Archive, opt KpackExtractOptions) ([]*kpack.Entry, error) {
	var chosen []*kpack.Entry
	for i := range a.Entries {
		e := &a.Entries[i]
		if opt.Binary != "" && e.Key != opt.Binary || opt.Arch != "" && e.Arch != opt.Arch {
			continue
		}
		if opt.OutputDir != "" {
			if err := kpack.CheckKey(e.Key, e.Arch); err != nil {
				return nil, err
			}
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

// longestFile is the largest length of a file name, in bytes, on all systems.
const longestFile = 255

// entryFile returns the name of the file for an entry. number is 1 for the first entry of that name.
func entryFile(e *kpack.Entry, number int) string {
	const extension = ".hsaco"
	name := strings.NewReplacer("/", "_", `\`, "_", ":", "_", "#", "_").Replace(e.Key + "-" + e.Arch)
	suffix := extension
	if number > 1 {
		suffix = "-" + strconv.Itoa(number) + extension
	}
	if len(name)+len(suffix) > longestFile {
		sum := sha256.Sum256([]byte(e.Key + "\x00" + e.Arch))
		suffix = "-" + hex.EncodeToString(sum[:8]) + suffix
		name = name[:longestFile-len(suffix)]
	}
	return name + suffix
}

// KpackProblem is a fault that KpackVerify found.
type KpackProblem struct {
	File    string
	Text    string
	Warning bool // readers accept it
}

// KpackVerify checks archives, and libraries and programs with a marker,
// individually and against each other. The error is about the first problem that
// is not a warning.
func (s *Session) KpackVerify(ctx context.Context, names []string) (problems []KpackProblem, err error) {
	defer guard.Into(&err)()
	v := kpack.Verifier{Budget: s.budget}
	err = s.readKpacks(names, func(input *files.Input, a *kpack.Archive, h *kpack.Host) {
		if a != nil {
			v.Archive(ctx, input.Name(), a)
		} else {
			v.Host(input.Name(), h, input.All())
		}
	}, func() error {
		v.Finish()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return v.Err()
	})
	for _, p := range v.Problems {
		problems = append(problems, KpackProblem(p))
	}
	return problems, err
}
