// Package linkcache stores the results of device links in a directory, by a hash of everything that
// they depend on, so that a link with the same inputs does not run again.
//
// # Layout
//
// DIR/v1/xx/KEY is one result. KEY has 64 hexadecimal digits, and xx is the first two of them. The file
// has the image, then the output of the link, then a trailer of 56 bytes: the SHA-256 of both, the
// sizes of both as 64-bit little-endian numbers, and a magic number. Each result is a transaction of
// package files, so that processes that use the directory at the same time find it complete or not at
// all. The time of a result is that of its last use.
package linkcache

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/link/process"
)

// defaultLimit is the size limit of a Store whose Limit is 0, in bytes.
const defaultLimit = 5 << 30

const (
	version     = "v1"
	magic       = "OFFLINK1"
	trailerSize = sha256.Size + 8 + 8 + len(magic)
	// maxMessages is the largest output of a link that is stored, in bytes.
	maxMessages = 16 << 20
)

// Key is the hash of everything that a result depends on.
type Key [sha256.Size]byte

// String returns the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Store is a directory of results. Several processes may use it at the same time.
type Store struct {
	// Dir is created by the first Put.
	Dir string
	// Name is the name of the store in warnings.
	Name string
	// Limit is the largest size of all results, in bytes; 0 means defaultLimit. The
	// least recently used results are removed first.
	Limit int64
}

// Run runs a device link that writes output, or copies its result from the store. link must print to
// messages. Errors of the store are warnings in messages.
func (s *Store) Run(ctx context.Context, link process.Command, inputs []string, output string, messages *bytes.Buffer) error {
	identified, err := Identify(ctx, link, inputs, output)
	if err != nil {
		return err
	}
	if identified == nil {
		return link.Run(ctx)
	}
	warn := func(err error) { fmt.Fprintf(messages, "warning: %s: %v\n", s.Name, err) }
	if link.Dir != "" && !filepath.IsAbs(output) {
		output = filepath.Join(link.Dir, output)
	}
	printed, found, err := s.Get(identified.Key, output)
	if found {
		messages.Write(printed)
		return nil
	}
	if err != nil {
		warn(err)
	}
	if err := link.Run(ctx); err != nil {
		return err
	}
	if info, err := os.Stat(output); err != nil || info.Size() == 0 || !identified.Unchanged() {
		return nil
	}
	if err := s.Put(identified.Key, output, messages.Bytes()); err != nil {
		warn(err)
	}
	return nil
}

func (s *Store) path(key Key) string {
	name := key.String()
	return filepath.Join(s.Dir, version, name[:2], name)
}

// Get writes the image of a result to the file output and returns the output of the
// link. found is false if the result is missing or damaged. A damaged result is
// removed.
func (s *Store) Get(key Key, output string) (messages []byte, found bool, err error) {
	name := s.path(key)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	messages, err = extract(f, output)
	if errors.Is(err, errDamaged) {
		os.Remove(output)
		return nil, false, ignoreMissing(os.Remove(name))
	}
	if err != nil {
		return nil, false, err
	}
	now := time.Now()
	_ = os.Chtimes(name, now, now) // fails if the directory is read-only
	return messages, true, nil
}

var errDamaged = errors.New("the cached result is damaged")

// extract checks a result and writes its image.
func extract(f *os.File, output string) (messages []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var trailer [trailerSize]byte
	if info.Size() < int64(trailerSize) {
		return nil, errDamaged
	}
	if _, err := f.ReadAt(trailer[:], info.Size()-int64(trailerSize)); err != nil {
		return nil, err
	}
	sum, rest := trailer[:sha256.Size], trailer[sha256.Size:]
	image, printed := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
	total := uint64(info.Size()) - uint64(trailerSize)
	if string(rest[16:]) != magic || image > total || printed != total-image || printed > maxMessages {
		return nil, errDamaged
	}
	out, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	if _, err = io.Copy(out, io.TeeReader(io.LimitReader(f, int64(image)), hash)); err == nil {
		messages = make([]byte, printed)
		if _, err = io.ReadFull(f, messages); err == nil {
			hash.Write(messages)
		}
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	if !bytes.Equal(hash.Sum(nil), sum) {
		return nil, errDamaged
	}
	return messages, nil
}

// Put stores the image in a file, and the output of its link, as a result. If the store is then
// too large, Put removes other results.
func (s *Store) Put(key Key, image string, messages []byte) error {
	if len(messages) > maxMessages {
		return nil
	}
	root := files.NewRoot("")
	in, err := root.Open(image)
	if err != nil {
		return err
	}
	defer in.Close()
	name := s.path(key)
	err = root.Write(context.Background(), func(outputs *files.Outputs) error {
		if err := outputs.MakeDir(filepath.Dir(name)); err != nil {
			return err
		}
		out, err := outputs.Create(name)
		if err != nil {
			return err
		}
		hash := sha256.New()
		hash.Write(in.Bytes())
		hash.Write(messages)
		end := append(slices.Clone(messages), hash.Sum(nil)...)
		end = binary.LittleEndian.AppendUint64(end, uint64(in.Size()))
		end = binary.LittleEndian.AppendUint64(end, uint64(len(messages)))
		if err := out.Append(in.All()); err != nil {
			return err
		}
		_, err = out.Write(append(end, magic...))
		return err
	})
	// If another process removes the same result at the same time, nothing is stored.
	if err := ignoreMissing(err); err != nil {
		return err
	}
	return s.trim()
}

// result is a file of the store.
type result struct {
	name string
	size int64
	used time.Time
}

// trim removes the least recently used results if the store is too large.
func (s *Store) trim() error {
	limit := cmp.Or(s.Limit, defaultLimit)
	results, err := s.results()
	if err != nil {
		return err
	}
	var total int64
	for _, r := range results {
		total += r.size
	}
	if total <= limit {
		return nil
	}
	slices.SortFunc(results, func(a, b result) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) })
	for _, r := range results {
		// Remove a tenth of the store at once, so that not every Put removes a result.
		if total <= limit-limit/10 {
			break
		}
		if err := os.Remove(r.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= r.size
	}
	return nil
}

// results returns the results in the store. It skips files with other names.
func (s *Store) results() (results []result, err error) {
	dirs, err := os.ReadDir(filepath.Join(s.Dir, version))
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		name := filepath.Join(s.Dir, version, dir.Name())
		entries, err := os.ReadDir(name)
		if err != nil && !dir.IsDir() {
			continue
		} else if err := ignoreMissing(err); err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if !isResult(dir.Name(), entry) {
				continue
			}
			info, err := entry.Info()
			if err == nil {
				results = append(results, result{filepath.Join(name, entry.Name()), info.Size(), info.ModTime()})
			} else if err := ignoreMissing(err); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// isResult reports whether a directory entry has the name of a result.
func isResult(dir string, entry fs.DirEntry) bool {
	name := entry.Name()
	sum, err := hex.DecodeString(name)
	return err == nil && len(sum) == sha256.Size && strings.HasPrefix(name, dir) && len(dir) == 2 && entry.Type().IsRegular()
}

// ignoreMissing ignores the error for a file that another process removed.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// hasher computes a Key.
type hasher struct{ hash.Hash }

func newHasher() hasher { return hasher{sha256.New()} }

// text adds a text. Its length is added, too, so that "ab" and "c" differ from "a" and "bc".
func (h hasher) text(s string) {
	fmt.Fprintf(h, "%d:", len(s))
	io.WriteString(h, s)
}

// file adds the role and the content of a file, and returns its first bytes.
func (h hasher) file(role, name string) (head []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head = make([]byte, 16)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	content := sha256.New()
	if _, err := io.Copy(content, f); err != nil {
		return nil, err
	}
	h.text(role)
	h.text(string(content.Sum(nil)))
	return head[:n], nil
}

// key returns the hash of everything that was added.
func (h hasher) key() Key { return Key(h.Sum(nil)) }
