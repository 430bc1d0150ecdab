package kpack

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Names of sections in PE files.
const (
	peWrappers = ".hipFatB"
	peMarker   = ".kpackrf"
)

// parsePE reads a Windows library or program with a marker.
func parsePE(c content.Content) (*Host, error) {
	f, err := object.Parse(c.Mapped(guard.Inside))
	if err != nil {
		return nil, fmt.Errorf("PE file: %w", err)
	}
	body := func(name string) ([]byte, bool) {
		i := slices.IndexFunc(f.Sections, func(s object.Section) bool { return string(s.Name) == name })
		if i < 0 {
			return nil, false
		}
		data, _ := f.Data(i)
		return data, true
	}
	marker, marked := body(peMarker)
	wrappers, wrapped := body(peWrappers)
	if !marked || !wrapped {
		return nil, ErrNoMarker
	}
	if len(marker) == 0 {
		return nil, errors.New("PE file: the section of the marker passes the end of the file")
	}
	m, err := parseMarker(marker)
	if err != nil {
		return nil, err
	}
	h := &Host{Marker: m}
	for _, r := range embedding.Records(wrappers, 0) {
		h.Wrappers = append(h.Wrappers, registered.Wrapper{Record: r})
	}
	return h, nil
}
