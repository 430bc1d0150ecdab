// Package linkcache stores the results of device links in a directory, by a hash of everything that
// they depend on, so that a link with the same inputs does not run again.
//
// # Layout
//
// DIR/v2/xx/KEY is one result. KEY has 64 hexadecimal digits, and xx is the first two of them. The file
// has the image, then the output of the link, then a trailer of 88 bytes: the key, the sizes of both as
// 64-bit little-endian numbers, a magic number, and the SHA-256 of all bytes before. Each result is a
// transaction of package files, so that processes that use the directory at the same time find it complete
// or not at all. The time of a result is that of its last use. A remembered value is a result without
// an image.
//
// Files of the earlier layout, in DIR/v1, are never read, and are removed like results.
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

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// defaultLimit is the size limit of a Store whose Limit is 0, in bytes.
const defaultLimit = 5 << 30

const (
	version     = "v2"
	earlier     = "v1"
	magic       = "OFFLINK2"
	trailerSize = sha256.Size + 8 + 8 + len(magic) + sha256.Size
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
	identified, err := Identify(ctx, link, inputs, output, s)
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
	before := messages.Len() // warnings of this call
	if err := link.Run(ctx); err != nil {
		return err
	}
	if info, err := os.Stat(output); err != nil || info.Size() == 0 || !identified.Unchanged() {
		return nil
	}
	if err := s.Put(identified.Key, output, messages.Bytes()[before:]); err != nil {
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
	return s.get(key, func(image io.Reader) error {
		out, err := os.Create(output)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, image)
		return errors.Join(err, out.Close())
	}, func() { os.Remove(output) })
}

// Recall implements Memory.
func (s *Store) Recall(key Key) (value []byte, found bool) {
	value, found, _ = s.get(key, func(image io.Reader) error {
		_, err := io.Copy(io.Discard, image)
		return err
	}, func() {})
	return value, found
}

// Remember implements Memory. If the store cannot be written, it remembers nothing.
func (s *Store) Remember(key Key, value []byte) { _ = s.put(key, content.Memory(nil), value) }

// get passes the image of a result to take. If the result turns out to be damaged, it calls discard. A
// directory entry that is no regular file is no result.
func (s *Store) get(key Key, take func(image io.Reader) error, discard func()) (messages []byte, found bool, err error) {
	name := s.path(key)
	info, err := os.Lstat(name) // to open a pipe may never end
	if err != nil || !info.Mode().IsRegular() {
		return nil, false, ignoreMissing(err)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, false, ignoreMissing(err)
	}
	defer f.Close()
	messages, err = extract(f, key, take)
	if errors.Is(err, errDamaged) {
		discard()
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

// trailer returns the end of a result without its hash.
func trailer(key Key, image, messages int64) []byte {
	b := append([]byte{}, key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(image))
	b = binary.LittleEndian.AppendUint64(b, uint64(messages))
	return append(b, magic...)
}

// extract checks a result. It passes the image to take before it checks the hash.
func extract(f *os.File, key Key, take func(image io.Reader) error) (messages []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	total := info.Size() - int64(trailerSize)
	if total < 0 {
		return nil, errDamaged
	}
	end := make([]byte, trailerSize)
	if _, err := f.ReadAt(end, total); err != nil {
		return nil, err
	}
	end, sum := end[:trailerSize-sha256.Size], end[trailerSize-sha256.Size:]
	image := int64(binary.LittleEndian.Uint64(end[sha256.Size:]))
	printed := total - image
	if image < 0 || printed < 0 || printed > maxMessages || !bytes.Equal(end, trailer(key, image, printed)) {
		return nil, errDamaged
	}
	hash := sha256.New()
	if err := take(io.TeeReader(io.LimitReader(f, image), hash)); err != nil {
		return nil, err
	}
	messages = make([]byte, printed)
	if _, err := io.ReadFull(f, messages); err != nil {
		return nil, err
	}
	hash.Write(messages)
	hash.Write(end)
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
	in, err := files.NewRoot("").Open(image)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := s.put(key, in.All(), messages); err != nil {
		return err
	}
	return s.trim()
}

// put stores a result. If another process removes the same result at the same time, it stores nothing.
func (s *Store) put(key Key, image content.Content, messages []byte) error {
	name := s.path(key)
	// Outputs are written through links and into pipes.
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		if err := ignoreMissing(os.Remove(name)); err != nil {
			return err
		}
	}
	return ignoreMissing(files.NewRoot("").Write(context.Background(), func(outputs *files.Outputs) error {
		if err := outputs.MakeDir(filepath.Dir(name)); err != nil {
			return err
		}
		out, err := outputs.Create(name)
		if err != nil {
			return err
		}
		end := trailer(key, image.Len(), int64(len(messages)))
		hash := sha256.New()
		for _, b := range [][]byte{image.Mapped(guard.Inside), messages, end} {
			hash.Write(b)
		}
		if err := out.Append(image); err != nil {
			return err
		}
		_, err = out.Write(slices.Concat(messages, end, hash.Sum(nil)))
		return err
	}))
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

// results returns the results in the store, also those of the earlier layout. It skips files with other
// names.
func (s *Store) results() (results []result, err error) {
	for _, version := range []string{version, earlier} {
		list, err := resultsIn(filepath.Join(s.Dir, version))
		if err := ignoreMissing(err); err != nil {
			return nil, err
		}
		results = append(results, list...)
	}
	return results, nil
}

// resultsIn returns the results in the directory of a layout.
func resultsIn(parent string) (results []result, err error) {
	dirs, err := os.ReadDir(parent)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		name := filepath.Join(parent, dir.Name())
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

// key returns the hash of everything that was added.
func (h hasher) key() Key { return Key(h.Sum(nil)) }

// digestOf returns the hash of the content of a file, and its first bytes.
func digestOf(name string) (head []byte, digest Key, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, Key{}, err
	}
	defer f.Close()
	head = make([]byte, 16)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, Key{}, err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return nil, Key{}, err
	}
	return head[:n], Key(hash.Sum(nil)), nil
}
