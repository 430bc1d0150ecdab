package packages

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const tarBlock = 512

// tarball reads a tar file, compressed or not.
func (w *walker) tarball(c content.Content) error {
	if compression(c.Mapped(guard.Inside)) == "" {
		r := bytes.NewReader(c.Mapped(guard.Inside))
		return w.tar(tar.NewReader(r), func(size int64) (content.Content, bool) {
			at := c.Len() - int64(r.Len())
			if size > c.Len()-at {
				return content.Content{}, false
			}
			return c.Slice(at, size), true
		})
	}
	r, err := decompress(w.ctx, c, w.budget, w.xz)
	if err != nil {
		return err
	}
	defer r.close()
	in := w.limited(r)
	if err := w.tar(tar.NewReader(in), func(int64) (content.Content, bool) { return content.Content{}, false }); err != nil {
		return err
	}
	return drain(in)
}

// drain reads the rest of a compressed file, so that one that is cut short is an error.
func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// tar reads the members. stored returns the next bytes if they are in the package as they are.
func (w *walker) tar(r *tar.Reader, stored func(size int64) (content.Content, bool)) error {
	buffered := bufio.NewReaderSize(nil, headSize)
	for {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("tar file: it is cut short")
		case err != nil:
			return fmt.Errorf("tar file: %w", err)
		}
		m := &Member{Name: h.Name}
		switch h.Typeflag {
		case tar.TypeReg:
			m.Size = h.Size
			if m.stored, m.plain = stored(h.Size); !m.plain || sparse(h) {
				m.plain = false
				buffered.Reset(r)
				m.stream = buffered
			}
		case tar.TypeSymlink:
			m.Link = h.Linkname
		case tar.TypeLink:
			m.Same = h.Linkname
		default:
			continue
		}
		if err := w.add(m); err != nil {
			return err
		}
	}
}

// sparse reports whether the file is stored without its zeros.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	_, one := h.PAXRecords["GNU.sparse.major"]
	_, zero := h.PAXRecords["GNU.sparse.size"]
	return one || zero
}
