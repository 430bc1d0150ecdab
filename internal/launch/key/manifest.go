package key

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/launch/plan"
)

// Hash computes keys. The length of each text is added, too, so that "ab" and "c" differ from "a" and "bc".
type Hash struct{ sum []byte }

// Text adds texts.
func (h *Hash) Text(texts ...string) {
	for _, s := range texts {
		h.sum = strconv.AppendInt(h.sum, int64(len(s)), 10)
		h.sum = append(h.sum, ':')
		h.sum = append(h.sum, s...)
	}
}

// Digest adds a digest.
func (h *Hash) Digest(d cache.Digest) { h.Text(d.String()) }

// Key returns the hash of everything that was added.
func (h *Hash) Key() [32]byte { return sha256.Sum256(h.sum) }

// A Read is a file that a compilation read, as it named it.
type Read struct {
	Name   string
	Digest cache.Digest
}

// A Variant is a set of files that a compilation read.
type Variant struct {
	// Files are the files, in the order of the dependency file.
	Files []Read
	// Names are the names that the files include, without directories in which they are searched, in
	// order. Quoted are those that are searched beside a file, by the directory of the file.
	Names  []string
	Quoted map[string][]string
	// State is the hash of which of the names exist in which directories.
	State [32]byte
}

// A Manifest has the variants of a compilation, the latest first.
type Manifest []Variant

// maxVariants is the number of variants that a manifest keeps.
const maxVariants = 16

// Add returns the manifest with a variant in front.
func (m Manifest) Add(v Variant) Manifest {
	all := Manifest{v}
	for _, old := range m {
		if len(all) < maxVariants && old.id() != v.id() {
			all = append(all, old)
		}
	}
	return all
}

// Union returns the variants of two manifests.
func (m Manifest) Union(other Manifest) Manifest {
	all := m
	for _, v := range slices.Backward(other) {
		if !slices.ContainsFunc(m, func(w Variant) bool { return w.id() == v.id() }) {
			all = all.Add(v)
		}
	}
	return all
}

// id returns the hash of what a variant requires.
func (v *Variant) id() [32]byte {
	var h Hash
	for _, r := range v.Files {
		h.Text(r.Name, r.Digest.String())
	}
	h.Text(string(v.State[:]))
	return h.Key()
}

// Key returns the key of the result for a variant, from the key of the manifest.
func (v *Variant) Key(base [32]byte) [32]byte {
	var h Hash
	id := v.id()
	h.Text("result", string(base[:]), string(id[:]))
	return h.Key()
}

// Find returns the first variant whose files are as they were. search are the directories in
// which headers are searched. If no variant matches, why names a file of the latest one that changed.
func (m Manifest) Find(f *Files, search []string) (found *Variant, why string) {
	for i := range m {
		changed := m[i].changed(f, search)
		if changed == "" {
			return &m[i], ""
		}
		why = cmp.Or(why, changed)
	}
	return nil, why
}

// changed returns what changed since the compilation of a variant, "" for nothing.
func (v *Variant) changed(f *Files, search []string) string {
	for _, r := range v.Files {
		if d, err := f.Digest(r.Name); err != nil {
			return r.Name + " cannot be read"
		} else if d != r.Digest {
			return r.Name + " changed"
		}
	}
	if f.state(v, search) != v.State {
		return "a header was added to or removed from the directories that are searched"
	}
	return ""
}

// state returns the hash of which names exist in which directories. If before is not zero, the error is ErrNew for a
// file that changed since then: a compilation may have run before it existed.
func (v *Variant) state(f *Files, search []string, before time.Time) (state [32]byte, err error) {
	var h Hash
	probe := func(dir string, names []string) {
		bits := make([]byte, len(names))
		for i, name := range names {
			exists, isDir := f.exists(dir, name)
			switch {
			case isDir:
				bits[i] = 2
			case exists:
				bits[i] = 1
				if path := beside(dir, name); !before.IsZero() && changedSince(path, before) {
					err = fmt.Errorf("%s: %w", path, ErrNew)
				}
			}
		}
		h.Text(string(bits))
	}
	seen := map[string]bool{}
	for _, dir := range search {
		if !seen[dir] { // compilers are given some directories twice
			seen[dir] = true
			probe(dir, v.Names)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(v.Quoted)) {
		probe(dir, v.Quoted[dir])
	}
	return h.Key(), err
}

// beside returns the path of a name in a directory.
func beside(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return dir + "/" + name
}

// changedSince reports whether a file changed, or cannot be found.
func changedSince(name string, since time.Time) bool {
	info, err := os.Stat(name)
	return err != nil || !changeTime(info).Before(since)
}

// clockStep is the longest time by which the clock of a file system is behind that of the system.
const clockStep = 20 * time.Millisecond

// ErrNew reports that a file changed during or shortly before a compilation, so that it is not known which content was read.
var ErrNew = errors.New("a file changed during the compilation")

// An Observation is what a compilation read.
type Observation struct {
	// Names are the files, as the compilation names them.
	Names []string
	Form  *Form
	// Started is a time before the first file was read.
	Started time.Time
	// FixedTime reports whether __DATE__ and __TIME__ do not depend on the clock.
	FixedTime bool
}

// Variant returns the variant for what a compilation read. The error is a plan.Reason or ErrNew if its result
// cannot be used again.
func (o *Observation) Variant(f *Files) (*Variant, error) {
	before := o.Started.Add(-clockStep)
	for _, name := range o.Form.Files {
		if changedSince(name, before) {
			return nil, fmt.Errorf("%s: %w", name, ErrNew)
		}
	}
	v := &Variant{Quoted: map[string][]string{}}
	names := map[string]bool{}
	quoted := map[string]map[string]bool{}
	quote := func(dir, name string) {
		if quoted[dir] == nil {
			quoted[dir] = map[string]bool{}
		}
		quoted[dir][name] = true
	}
	for _, name := range o.Form.Included {
		names[name] = true
		quote(".", name)
	}
	seen := map[string]bool{}
	for _, name := range o.Names {
		if seen[name] {
			continue
		}
		seen[name] = true
		if strings.ContainsAny(name, "\n\r") {
			return nil, plan.Reason("a file has a line break in its name")
		}
		digest, facts, err := f.scan(name)
		switch {
		case errors.Is(err, ErrNew):
			return nil, fmt.Errorf("%s: %w", name, err)
		case err != nil:
			return nil, plan.Reason(fmt.Sprintf("a file that the compilation read cannot be read: %v", err))
		case changedSince(name, before):
			return nil, fmt.Errorf("%s: %w", name, ErrNew)
		case facts.Unknown != "":
			return nil, plan.Reason(name + " has " + facts.Unknown)
		case facts.Timestamp:
			return nil, plan.Reason(name + " has __TIMESTAMP__")
		case facts.Time && !o.FixedTime:
			return nil, plan.Reason(name + " has __DATE__ or __TIME__")
		}
		v.Files = append(v.Files, Read{name, digest})
		for _, n := range facts.Angled {
			names[n] = true
		}
		dir := filepath.Dir(name)
		for _, n := range facts.Quoted {
			names[n] = true
			quote(dir, n)
		}
		// A name in a macro is not found in the text.
		for _, dir := range o.Form.Search {
			if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/"); ok {
				names[rest] = true
			}
		}
	}
	if len(v.Files) == 0 {
		return nil, plan.Reason("the compilation lists no files")
	}
	v.Names = slices.Sorted(maps.Keys(names))
	for dir, n := range quoted {
		v.Quoted[dir] = slices.Sorted(maps.Keys(n))
	}
	var err error
	v.State, err = v.state(f, o.Form.Search, before)
	return v, err
}

// scan returns what is known about a file.
func (f *Files) scan(name string) (cache.Digest, Facts, error) {
	digest, err := f.Digest(name)
	if err != nil {
		return digest, Facts{}, err
	}
	got := f.get(name)
	got.scan.Do(func() {
		data, err := os.ReadFile(name)
		switch {
		case err != nil:
			got.scanErr = err
		case cache.DigestOf(data) != digest:
			got.scanErr = ErrNew
		default:
			got.facts = Scan(data)
		}
	})
	return digest, got.facts, got.scanErr
}

// manifestHead is the first line of a manifest.
const manifestHead = "offload launch manifest 1"

// Marshal returns the text of a manifest.
func (m Manifest) Marshal() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, manifestHead)
	for _, v := range m {
		fmt.Fprintf(&b, "v %x\n", v.State)
		for _, r := range v.Files {
			fmt.Fprintf(&b, "f %s %s\n", r.Digest, r.Name)
		}
		for _, n := range v.Names {
			fmt.Fprintf(&b, "n %s\n", n)
		}
		for _, dir := range slices.Sorted(maps.Keys(v.Quoted)) {
			fmt.Fprintf(&b, "d %s\n", dir)
			for _, n := range v.Quoted[dir] {
				fmt.Fprintf(&b, "q %s\n", n)
			}
		}
	}
	return b.Bytes()
}

var errManifest = errors.New("not a manifest of offload launch")

// ParseManifest reads a manifest.
func ParseManifest(data []byte) (m Manifest, err error) {
	text, ok := strings.CutPrefix(string(data), manifestHead+"\n")
	if !ok || text != "" && !strings.HasSuffix(text, "\n") {
		return nil, errManifest
	}
	var v *Variant
	var dir string
	for line := range strings.Lines(text) {
		kind, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || v == nil && kind != "v" {
			return nil, errManifest
		}
		switch kind {
		case "v":
			if len(m) == maxVariants {
				return nil, errManifest
			}
			m = append(m, Variant{Quoted: map[string][]string{}})
			v, dir = &m[len(m)-1], ""
			state, err := hex.DecodeString(value)
			if err != nil || len(state) != len(v.State) {
				return nil, errManifest
			}
			v.State = [32]byte(state)
		case "f":
			digest, name, ok := strings.Cut(value, " ")
			d, err := cache.ParseDigest(digest)
			if !ok || err != nil {
				return nil, errManifest
			}
			v.Files = append(v.Files, Read{name, d})
		case "n":
			v.Names = append(v.Names, value)
		case "d":
			dir = value
			v.Quoted[dir] = nil
		case "q":
			if dir == "" {
				return nil, errManifest
			}
			v.Quoted[dir] = append(v.Quoted[dir], value)
		default:
			return nil, errManifest
		}
	}
	return m, nil
}
