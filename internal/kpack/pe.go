package kpack

import (
	"bytes"
	"debug/pe"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/prune"
)

// Names of sections in PE files.
const (
	peWrappers = ".hipFatB"
	peMarker   = ".kpackrf"
)

// parsePE reads a Windows library or program with a marker.
func parsePE(c content.Content) (*Host, error) {
	f, err := pe.NewFile(bytes.NewReader(c.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("PE file: %w", err)
	}
	body := func(s *pe.Section) []byte {
		if uint64(s.Offset)+uint64(s.Size) > uint64(c.Len()) {
			return nil
		}
		return c.Bytes()[s.Offset : s.Offset+min(s.Size, max(s.VirtualSize, 1))]
	}
	marker, wrappers := f.Section(peMarker), f.Section(peWrappers)
	if marker == nil || wrappers == nil {
		return nil, ErrNoMarker
	}
	if len(body(marker)) == 0 {
		return nil, errors.New("PE file: the section of the marker passes the end of the file")
	}
	m, err := parseMarker(body(marker))
	if err != nil {
		return nil, err
	}
	h := &Host{Marker: m}
	for _, r := range embedding.Records(body(wrappers), 0) {
		h.Wrappers = append(h.Wrappers, prune.Wrapper{Record: r})
	}
	return h, nil
}
