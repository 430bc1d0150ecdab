package wheel

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rules-offload/rules_offload/internal/limits"
)

// Row is a line of a RECORD file. Paths are as written: those of an installation can be
// absolute or have "..".
type Row struct {
	Path string
	// Hash is ALGORITHM=DIGEST, the digest in URL-safe base64 without padding. It is empty for
	// RECORD itself and for files that an installer compiled.
	Hash string
	Size int64 // in bytes; -1 if unspecified
}

// ParseRecord parses a RECORD file. It does not reject a path that occurs twice.
func ParseRecord(data []byte) ([]Row, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("expected UTF-8")
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = 3
	r.ReuseRecord = true
	var rows []Row
	for number := 1; ; number++ {
		l, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return nil, fmt.Errorf("%w; expected lines PATH,HASH,SIZE", err)
		case number > limits.Members: // a small wheel can expand to a large RECORD
			return nil, fmt.Errorf("found more than %d entries", limits.Members)
		}
		row := Row{Path: l[0], Hash: l[1], Size: -1}
		if row.Path == "" {
			return nil, fmt.Errorf("entry %d: the path is empty", number)
		}
		if l[2] != "" {
			if row.Size, err = strconv.ParseInt(l[2], 10, 64); err != nil || row.Size < 0 {
				return nil, fmt.Errorf("entry %d, %.200q: found the size %.100q, expected a number", number, row.Path, l[2])
			}
		}
		if algorithm, digest, ok := strings.Cut(row.Hash, "="); row.Hash != "" && (!ok || algorithm == "" || digest == "") {
			return nil, fmt.Errorf("entry %d, %.200q: found the hash %.100q, expected sha256=DIGEST", number, row.Path, row.Hash)
		}
		rows = append(rows, row)
	}
}

// FormatRecord returns the RECORD file of rows.
func FormatRecord(rows []Row) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, r := range rows {
		size := ""
		if r.Size >= 0 {
			size = strconv.FormatInt(r.Size, 10)
		}
		_ = w.Write([]string{r.Path, r.Hash, size}) // to memory
	}
	w.Flush()
	return b.Bytes()
}

// Hash returns the form of a SHA-256 sum in RECORD.
func Hash(sum [sha256.Size]byte) string {
	return "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:])
}
