// Package packages reads the files that software is shipped in: wheels and other zip files, tar
// files (plain, gzip, xz, zstd, bzip2), and packages of Debian and RPM. It writes nothing to disk:
// members are read in the order of the file, and only those that the caller loads are in memory.
//
// Files crafted to use much time or memory are rejected, see the limits below.
package packages

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/storage/pages"
)

// Limits for files crafted to exhaust time or memory.
const (
	// maxRatio is the largest ratio of all uncompressed bytes to the bytes of the file, and freeBytes
	// are the bytes that do not count. The packages of ROCm have ratios below 20.
	maxRatio  = 256
	freeBytes = 1 << 30
	// memberMemory is the memory for a member that the caller keeps, in bytes.
	memberMemory = 512
)

// Format is the format of a package.
type Format string

// The formats.
const (
	None Format = ""
	Zip  Format = "zip" // wheels are zip files
	Tar  Format = "tar" // compressed or not
	Deb  Format = "deb"
	RPM  Format = "rpm"
)

// debFirst is the name of the first member of packages of Debian.
const debFirst = "debian-binary"

// extension returns the format of a file by its name.
func extension(name string) Format {
	switch base := path.Base(name); {
	case strings.HasSuffix(base, ".whl"), strings.HasSuffix(base, ".zip"):
		return Zip
	case strings.HasSuffix(base, ".deb"):
		return Deb
	case strings.HasSuffix(base, ".rpm"):
		return RPM
	case strings.HasSuffix(base, ".tar"), strings.HasSuffix(base, ".tgz"), strings.Contains(base, ".tar."):
		return Tar
	}
	return None
}

// Identify returns the format of a file by its content or else by its name, or None if it is no
// package. It recognizes a compressed tar file by the header of its first member.
func Identify(ctx context.Context, name string, c content.Content, b *budget.Budget) Format {
	data := c.Mapped(guard.Inside)
	switch {
	case bytes.HasPrefix(data, []byte("PK\x03\x04")), bytes.HasPrefix(data, []byte("PK\x05\x06")):
		return Zip
	case bytes.HasPrefix(data, []byte("!<arch>\n"+debFirst)):
		return Deb
	case bytes.HasPrefix(data, rpmLead):
		return RPM
	case isTar(data):
		return Tar
	case compression(data) == "":
		return extension(name)
	}
	r, err := decompress(ctx, c, b, "") // only the first bytes are read
	if err != nil {
		return extension(name)
	}
	defer r.close()
	head := make([]byte, tarBlock)
	if n, _ := io.ReadFull(r, head); isTar(head[:n]) {
		return Tar
	}
	return extension(name)
}

// isTar reports whether data begins with a header of POSIX or GNU tar.
func isTar(data []byte) bool {
	const magicAt = 257
	return len(data) >= tarBlock && string(data[magicAt:magicAt+5]) == "ustar"
}

// Member is a file, or a symbolic or hard link, in a package. It is valid during the call that
// receives it.
type Member struct {
	// Name is the path in the package, with slashes, without . and .. elements.
	Name string
	// Original is Name as the package has it.
	Original string
	// Size is the size in bytes; 0 for links.
	Size int64
	// Link is the target of a symbolic link as it is stored, and Same the Name of the member that is
	// the same file (a hard link); "" for files.
	Link, Same string

	stored content.Content // the bytes, if they are in the package as they are
	plain  bool            // whether stored is set
	stream *bufio.Reader   // the bytes otherwise
	budget *budget.Budget
}

// headSize is the number of bytes that Head returns.
const headSize = 4096

// Head returns the first bytes, at most 4096. They are valid until the call of another method.
func (m *Member) Head() ([]byte, error) {
	if m.plain {
		return m.stored.Mapped(guard.Inside)[:min(m.stored.Len(), headSize)], nil
	}
	head, err := m.stream.Peek(int(min(m.Size, headSize)))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return head, err
}

// Load returns all bytes, and a function that frees their memory. It must be called at most once.
// Large members are outside of Go's heap, which would grow to twice their size.
func (m *Member) Load(ctx context.Context) (content.Content, func(), error) {
	if m.plain {
		return m.stored, func() {}, nil
	}
	memory, err := m.budget.Reserve(ctx, m.Size)
	if err != nil {
		return content.Content{}, nil, err
	}
	const large = 1 << 20
	var body []byte
	free := memory.Release
	if m.Size < large {
		body = make([]byte, m.Size)
	} else {
		mapped, err := pages.Map(int(m.Size))
		if err != nil {
			memory.Release()
			return content.Content{}, nil, err
		}
		body = mapped[:m.Size]
		free = func() {
			_ = pages.Unmap(mapped) // memory of its own
			memory.Release()
		}
	}
	_, err = io.ReadFull(m.stream, body)
	if err == nil {
		// The end of a member of a zip file has its checksum.
		if _, err = m.stream.ReadByte(); errors.Is(err, io.EOF) {
			return content.Memory(body), free, nil
		} else if err == nil {
			err = fmt.Errorf("%s: more than the %d bytes that the package states", m.Name, m.Size)
		}
	}
	if err != nil {
		free()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	return content.Content{}, nil, err
}

// WriteTo writes all bytes to w. It must not be called after Load.
func (m *Member) WriteTo(w io.Writer) (int64, error) {
	if m.plain {
		n, err := w.Write(m.stored.Mapped(guard.Inside))
		return int64(n), err
	}
	return io.Copy(w, m.stream)
}

// walker passes the members of a package to a function.
type walker struct {
	ctx    context.Context
	budget *budget.Budget
	xz     string
	visit  func(*Member) error
	count  int
	left   int64 // uncompressed bytes that may still be read
}

// Options are the options of Walk.
type Options struct {
	Budget *budget.Budget
	// XZ is the path of the program xz, which decodes large xz files; if empty, this program does. xz is
	// several times faster.
	XZ string
}

// Walk calls visit with each file and link of a package, in order. Directories, devices and the
// metadata of packages of Debian and RPM are left out. An error of visit ends it.
func Walk(ctx context.Context, f Format, c content.Content, opt Options, visit func(*Member) error) (err error) {
	defer guard.Into(&err)()
	w := &walker{ctx: ctx, budget: opt.Budget, xz: opt.XZ, visit: visit, left: freeBytes + maxRatio*c.Len()}
	switch f {
	case Zip:
		return w.zip(c)
	case Tar:
		return w.tarball(c)
	case Deb:
		return w.deb(c)
	case RPM:
		return w.rpm(c)
	}
	return errors.New("not a wheel, zip, tar, deb or rpm file")
}

// add passes a member to visit.
func (w *walker) add(m *Member) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	if w.count++; w.count > limits.Members {
		return fmt.Errorf("found more than %d members", limits.Members)
	}
	if len(m.Name) > limits.Name || len(m.Link) > limits.Name {
		return fmt.Errorf("a member has a name of %d bytes, expected at most %d", max(len(m.Name), len(m.Link)), limits.Name)
	}
	if m.Size < 0 {
		return fmt.Errorf("%s: found a size of %d bytes", m.Name, m.Size)
	}
	m.budget = w.budget
	m.plain = m.plain || m.stream == nil // links have no bytes
	m.Original = m.Name
	if m.Name = clean(m.Name); m.Name == "" {
		return nil
	}
	if m.Same != "" {
		m.Same = clean(m.Same)
	}
	if err := w.visit(m); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s: the package is cut short", m.Name)
		}
		return err
	}
	return nil
}

// clean returns a path relative to the root of the package, or "" for the root.
func clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// limited counts the uncompressed bytes of a stream.
func (w *walker) limited(r io.Reader) io.Reader { return &limitedReader{r, w} }

type limitedReader struct {
	r io.Reader
	w *walker
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.w.left -= int64(n); l.w.left < 0 {
		return 0, fmt.Errorf("the content is more than %d times as large as the package", maxRatio)
	}
	if cause := context.Cause(l.w.ctx); cause != nil {
		return 0, cause
	}
	return n, err
}

// deb reads a package of Debian: an archive with the members debian-binary, control.tar.* and data.tar.*.
func (w *walker) deb(c content.Content) error {
	archive, err := ar.Parse(c.Mapped(guard.Inside))
	if err != nil {
		return err
	}
	for m, err := range archive.Members() {
		if err != nil {
			return err
		}
		if name := strings.TrimSuffix(m.Name, "/"); name == "data.tar" || strings.HasPrefix(name, "data.tar.") {
			return w.tarball(c.Slice(m.DataOffset, int64(len(m.Data))))
		}
	}
	return errors.New("package of Debian without a member data.tar")
}
