package images

import (
	"errors"
	"fmt"
	"strings"
)

// Warnings returns the faults of bundles in the source that clang-offload-bundler accepts: two
// entries of a bundle with the same ID, and an END line of a text bundle whose ID differs from that
// of the START line. They are of type *PlaceError, in the order of the source.
func (s *Source) Warnings() (warnings []error) {
	warn := func(e *DeviceImage, format string, args ...any) {
		warnings = append(warnings, e.wrap(errors.New(fmt.Sprintf("entry %d: ", e.Index+1)+fmt.Sprintf(format, args...))))
	}
	var first firsts
	for _, e := range s.Images {
		if e.Form == FormSection {
			continue // sections of a bundled object have unique names
		}
		if end := strings.TrimSuffix(e.endID, "\r"); end != "" && end != strings.TrimSuffix(e.ID, "\r") {
			warn(e, "its START line has the ID %q, its END line %q; recreate the bundle", e.ID, end)
		}
		earlier := first.add(e)
		if earlier == nil {
			continue
		}
		taken := "first"
		if e.binary {
			taken = "last"
		}
		warn(e, "has the same ID %q as entry %d of the bundle, and the %s of them is used; recreate the bundle", e.ID, earlier.Index+1, taken)
	}
	return warnings
}

// firsts finds the first entry with an ID in a bundle.
type firsts struct {
	few  []*DeviceImage
	many map[firstKey]*DeviceImage // used for more than manyFirsts entries
}

type firstKey struct {
	bundle int
	id     string
}

// manyFirsts is the largest number of entries for which comparing all of them
// is faster than a map. Archives have many small bundles.
const manyFirsts = 16

// add returns the earlier entry with the same bundle and ID. If no entry has them,
// it adds e.
func (f *firsts) add(e *DeviceImage) *DeviceImage {
	if f.many == nil {
		for _, other := range f.few {
			if other.Bundle == e.Bundle && other.ID == e.ID {
				return other
			}
		}
		if f.few = append(f.few, e); len(f.few) <= manyFirsts {
			return nil
		}
		f.many = map[firstKey]*DeviceImage{}
		for _, other := range f.few {
			f.many[firstKey{other.Bundle, other.ID}] = other
		}
		return nil
	}
	key := firstKey{e.Bundle, e.ID}
	other := f.many[key]
	if other == nil {
		f.many[key] = e
	}
	return other
}
