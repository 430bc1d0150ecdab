// Package cache stores the results of actions: in a directory, on a server of the Remote Execution API, or
// in both. A result names its outputs by their digests. The outputs are blobs, which are stored once,
// whichever results name them.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Digest identifies a content: its SHA-256 and its size in bytes.
type Digest struct {
	Hash [sha256.Size]byte
	Size int64
}

// DigestOf returns the digest of data.
func DigestOf(data []byte) Digest { return Digest{sha256.Sum256(data), int64(len(data))} }

// String returns the hash in hexadecimal digits, a slash and the size.
func (d Digest) String() string { return fmt.Sprintf("%s/%d", d.Hex(), d.Size) }

// Hex returns the hash in hexadecimal digits.
func (d Digest) Hex() string { return hex.EncodeToString(d.Hash[:]) }

// An Output is a file that an action wrote.
type Output struct {
	Name   string
	Digest Digest
}

// A Result is what an action left. It is an ActionResult of the Remote Execution API.
type Result struct {
	// Outputs are the files, in the order of their names.
	Outputs []Output
	// Stderr is what the action printed.
	Stderr []byte
}

// Output returns the digest of the output of that name.
func (r *Result) Output(name string) (Digest, bool) {
	for _, o := range r.Outputs {
		if o.Name == name {
			return o.Digest, true
		}
	}
	return Digest{}, false
}

// ErrMissing reports a blob that is not stored, or whose stored content is damaged.
var ErrMissing = errors.New("not in the cache")

// A Store keeps results and blobs. Several goroutines may use it at the same time.
type Store interface {
	// Result returns the result of an action, nil if it is not stored.
	Result(ctx context.Context, action Digest) (*Result, error)
	// Blob returns a content. Its digest is checked. The error is ErrMissing if it is not stored.
	Blob(ctx context.Context, digest Digest) ([]byte, error)
	// Put stores the result of an action, after the contents of its outputs: blobs has at least those that
	// may not be stored yet.
	Put(ctx context.Context, action Digest, result *Result, blobs ...[]byte) error
}

// ParseDigest reads what Digest.String returns.
func ParseDigest(s string) (d Digest, err error) {
	hash, size, ok := strings.Cut(s, "/")
	n, err := strconv.ParseInt(size, 10, 64)
	sum, hexErr := hex.DecodeString(hash)
	if !ok || err != nil || n < 0 || hexErr != nil || len(sum) != len(d.Hash) {
		return d, fmt.Errorf("digest %q: expected a SHA-256, a slash and a size", s)
	}
	return Digest{[sha256.Size]byte(sum), n}, nil
}
