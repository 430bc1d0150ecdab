package prune

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const memberHeader = 60

// stored is a member of an archive, or its index or table of names.
type stored struct {
	header int64 // offset of its header
	prefix int64 // bytes of the name between header and data
	data   content.Content
	end    int64
	work   *Work // nil if it is copied
	index  string

	newHeader int64
}

// openArchive finds the device code in the members of an archive.
func (w *Work) openArchive(ctx context.Context) error {
	w.format = "archive"
	archive, err := ar.Parse(w.in.Mapped(guard.Inside))
	if err != nil {
		return unsupported(err)
	}
	if archive.Thin() {
		return unsupported(errors.New("thin archive: its members are separate files; prune these, or create a regular archive"))
	}
	members := make(map[int64]ar.Member)
	for m, err := range archive.Members() {
		if err != nil {
			return err
		}
		members[m.Offset] = m
	}
	all, err := readMembers(w.in, members, archive.Kind())
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		m, ok := members[s.header]
		if !ok {
			continue
		}
		sub := &Work{in: s.data, opt: w.opt}
		var err error
		if data := s.data.Mapped(guard.Inside); object.Identify(data) == object.ELFRelocatable && data[4] == 2 && data[5] == 1 {
			err = sub.openObject(ctx)
		} else {
			err = sub.openContainers(ctx)
		}
		w.release = append(w.release, sub.release...)
		if errors.Is(err, ErrNoDeviceCode) {
			continue
		}
		if err != nil {
			return fmt.Errorf("member %s: %w", m.Name, err)
		}
		for _, u := range sub.units {
			u.member = m.Name
		}
		s.work = sub
		w.units, w.order = append(w.units, sub.units...), append(w.order, sub.order...)
	}
	w.build = func() (*elfedit.Layout, error) { return buildArchive(w.in, all, &w.opt) }
	return nil
}

// readMembers returns everything in an archive, in order.
func readMembers(in content.Content, members map[int64]ar.Member, kind ar.Kind) ([]stored, error) {
	data := in.Mapped(guard.Inside)
	var all []stored
	indices := 0
	for at := int64(8); at < in.Len(); {
		if in.Len()-at < memberHeader {
			break // padding
		}
		h := data[at : at+memberHeader]
		size, err := strconv.ParseInt(strings.TrimRight(string(h[48:58]), " "), 10, 64)
		if err != nil || size < 0 || size > in.Len()-at-memberHeader {
			return nil, fmt.Errorf("archive member at byte %d: found size %q, expected at most the %d bytes that follow", at, h[48:58], in.Len()-at-memberHeader)
		}
		s := stored{header: at, end: min(at+memberHeader+size+size%2, in.Len())}
		body := at + memberHeader
		name := strings.TrimRight(string(h[:16]), " ")
		if m, ok := members[at]; ok {
			s.prefix = m.DataOffset - body
			if s.prefix < 0 || s.prefix+m.Size > size {
				return nil, fmt.Errorf("archive member %s: its data at byte %d passes its end", m.Name, m.DataOffset)
			}
			s.data = in.Slice(m.DataOffset, m.Size)
		} else {
			if long, ok := strings.CutPrefix(name, "#1/"); ok {
				if n, err := strconv.ParseInt(long, 10, 64); err == nil && n >= 0 && n <= size {
					s.prefix = n
					name = strings.TrimRight(string(data[body:body+n]), "\x00")
				}
			}
			s.data = in.Slice(body+s.prefix, size-s.prefix)
			switch {
			case name == "/" || name == "/SYM64/":
				s.index = name
				if indices++; indices == 2 && kind == ar.COFF {
					s.index = "second"
				}
			case strings.HasPrefix(name, "__.SYMDEF"):
				s.index = name
			}
		}
		all = append(all, s)
		at = s.end
	}
	return all, nil
}

// buildArchive writes the archive with changed members. Only the sizes in headers
// and the offsets in the index change.
func buildArchive(in content.Content, all []stored, o *Options) (*elfedit.Layout, error) {
	layout := &elfedit.Layout{Parts: []content.Part{{Content: in.Slice(0, 8)}}, Size: 8}
	moved := make(map[int64]int64)
	bodies := make([]*elfedit.Layout, len(all))
	at := int64(8)
	for i := range all {
		s := &all[i]
		bodies[i] = wholeFile(s.data)
		if s.work != nil && !s.work.unchanged() {
			var err error
			if bodies[i], err = s.work.build(); err != nil {
				return nil, err
			}
		}
		moved[s.header] = at
		s.newHeader = at
		size := s.prefix + bodies[i].Size
		at += memberHeader + size + size%2
	}
	for i := range all {
		s := &all[i]
		size := s.prefix + bodies[i].Size
		if size > 9_999_999_999 {
			return nil, fmt.Errorf("archive member at byte %d: %d bytes are more than an archive can state", s.header, size)
		}
		header := append([]byte{}, in.Mapped(guard.Inside)[s.header:s.header+memberHeader+s.prefix]...)
		copy(header[48:58], fmt.Sprintf("%-10d", size))
		if s.index != "" {
			index, err := moveIndex(s.data.Mapped(guard.Inside), s.index, moved)
			if err != nil {
				return nil, err
			}
			bodies[i] = wholeFile(content.Memory(index))
		}
		layout.Parts = append(layout.Parts, content.Part{Offset: s.newHeader, Content: content.Memory(header)})
		base := s.newHeader + int64(len(header))
		for _, part := range bodies[i].Parts {
			layout.Parts = append(layout.Parts, content.Part{Offset: base + part.Offset, Content: part.Content})
		}
		layout.Size = base + bodies[i].Size
		if size%2 != 0 {
			layout.Parts = append(layout.Parts, content.Part{Offset: layout.Size, Content: content.Memory([]byte{'\n'})})
			layout.Size++
		}
	}
	return layout, nil
}

// moveIndex returns the symbol index with the new offsets of members.
func moveIndex(old []byte, name string, moved map[int64]int64) ([]byte, error) {
	data := append([]byte{}, old...)
	word, order, bsd := uint64(4), binary.ByteOrder(binary.BigEndian), false
	switch {
	case name == "/":
	case name == "/SYM64/":
		word = 8
	case name == "second":
		order = binary.LittleEndian
	default:
		order, bsd = binary.LittleEndian, true
		if strings.HasPrefix(name, "__.SYMDEF_64") {
			word = 8
		}
	}
	get := func(at uint64) (uint64, bool) {
		switch {
		case at+word > uint64(len(data)) || at+word < at:
			return 0, false
		case word == 8:
			return order.Uint64(data[at:]), true
		}
		return uint64(order.Uint32(data[at:])), true
	}
	count, ok := get(0)
	first, step := word, word // first offset, distance of offsets
	if bsd {                  // the size of pairs of name and offset
		count /= 2 * word
		first, step = 2*word, 2*word
	}
	if !ok || count > uint64(len(data))/step {
		return nil, fmt.Errorf("symbol index of the archive: %d symbols do not lie in its %d bytes", count, len(data))
	}
	for i := range count {
		at := first + i*step
		place, ok := get(at)
		if !ok {
			return nil, fmt.Errorf("symbol index of the archive: %d symbols do not lie in its %d bytes", count, len(data))
		}
		now, known := moved[int64(place)]
		switch {
		case !known:
			return nil, fmt.Errorf("symbol index of the archive: no member begins at byte %d", place)
		case word == 8:
			order.PutUint64(data[at:], uint64(now))
		case now >= 1<<32:
			return nil, errors.New("the archive would pass 4 GiB, which its symbol index cannot express")
		default:
			order.PutUint32(data[at:], uint32(now))
		}
	}
	return data, nil
}
