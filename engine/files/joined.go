package files

import "fmt"

// Part is a content and where it lies among others.
type Part struct {
	Offset  int64
	Content Content
}

// Joined is several contents as one run of bytes. Where the offsets allow it,
// whole pages of the files are mapped behind each other and nothing is copied.
type Joined struct {
	data     []byte
	rest     []Part // to be copied by Fill
	copied   int64
	memory   []byte     // what Close unmaps, nil for the heap
	mappings []*mapping // inside memory
}

// Join returns size bytes in which every part lies at its offset. The parts are
// in order and inside. The bytes are there when Fill has copied what cannot be
// mapped; what no part covers is zero. The inputs of the contents must stay
// open until Close.
func Join(size int64, parts []Part) (*Joined, error) {
	if int64(int(size)) != size {
		return nil, fmt.Errorf("%d bytes cannot be mapped", size)
	}
	j := new(Joined)
	if err := j.reserve(int(size)); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := j.join(p); err != nil {
			j.Close()
			return nil, err
		}
	}
	for _, p := range j.rest {
		j.copied += p.Content.Len()
	}
	return j, nil
}

// join maps the whole pages of p, if they can be, and notes the rest.
func (j *Joined) join(p Part) error {
	c := p.Content
	n := c.Len()
	if c.in != nil && c.in.mapping != nil && j.memory != nil && (c.off-p.Offset)%pageSize == 0 {
		head := min((pageSize-p.Offset%pageSize)%pageSize, n)
		if whole := (n - head) / pageSize * pageSize; whole > 0 {
			if err := j.mapPages(p.Offset+head, c.Slice(head, whole)); err != nil {
				return err
			}
			j.later(p.Offset, c.Slice(0, head))
			j.later(p.Offset+head+whole, c.Slice(head+whole, n-head-whole))
			return nil
		}
	}
	j.later(p.Offset, c)
	return nil
}

func (j *Joined) later(off int64, c Content) {
	if c.Len() > 0 {
		j.rest = append(j.rest, Part{off, c})
	}
}

// Copied returns how many bytes Fill copies: the memory that is needed.
func (j *Joined) Copied() int64 { return j.copied }

// Fill copies what cannot be mapped. Call it once, before Bytes.
func (j *Joined) Fill() error {
	for _, p := range j.rest {
		if _, err := p.Content.ReadAt(j.data[p.Offset:p.Offset+p.Content.Len()], 0); err != nil {
			return err
		}
	}
	j.rest = nil
	return nil
}

// Bytes returns all bytes. They are valid until Close; writing to them is a fault.
func (j *Joined) Bytes() []byte { return j.data }
