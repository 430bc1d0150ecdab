package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// sample is a file with device images whose contents are known.
type sample struct {
	name    string
	file    string // in the campaign's directory
	data    []byte
	targets []string
	images  map[string][]byte // by target
	// checked means that every changed bit must be detected.
	checked bool
}

// image returns content that compresses like code: pieces are repeated with changes, and occur in
// other images of the same base.
func (c *campaign) image(base []byte, size int) []byte {
	b := make([]byte, 0, size)
	for len(b) < size {
		switch c.rand.IntN(4) {
		case 0: // instructions of their own
			for range 64 {
				b = binary.LittleEndian.AppendUint32(b, c.rand.Uint32()&0x83ff00ff)
			}
		case 1:
			b = append(b, make([]byte, c.rand.IntN(300))...)
		default: // of the base
			at := c.rand.IntN(len(base) - 1)
			b = append(b, base[at:min(len(base), at+c.rand.IntN(4000))]...)
		}
	}
	return b[:size]
}

// makeSamples makes bundles in every form that the program writes.
func (c *campaign) makeSamples() error {
	base := make([]byte, 64<<10)
	for i := range base {
		base[i] = byte(c.rand.Uint32())
	}
	small, large := 3000, 600<<10
	for _, form := range []struct {
		name    string
		size    int
		flags   []string
		checked bool
	}{
		{"plain", small, []string{"--align=4096"}, false},
		{"small", small, []string{"--compress"}, true},
		{"small-v2", small, []string{"--compress", "--format-version=2"}, true},
		{"one-frame", large, []string{"--compress", "--frames=one", "--align=4096"}, true},
		{"entry-frames", large, []string{"--compress", "--frames=entry", "--align=4096"}, true},
		{"auto", large, []string{"--compress", "--align=4096"}, true},
	} {
		s := &sample{name: form.name, file: form.name + ".hipfb", checked: form.checked, images: map[string][]byte{}}
		args := append([]string{"bundle", "--output=" + s.file}, form.flags...)
		for i, target := range []string{"gfx906", "gfx90a:xnack+", "gfx1030", "gfx1100", "gfx1201"} {
			s.targets = append(s.targets, target)
			s.images[target] = c.image(base, form.size+c.rand.IntN(form.size)-i)
			name := fmt.Sprintf("%s-%d.co", form.name, i)
			if err := os.WriteFile(c.path(name), s.images[target], 0o666); err != nil {
				return err
			}
			args = append(args, "--entry="+target+"="+name)
		}
		if err := c.sample(s, args); err != nil {
			return err
		}
		if form.name == "auto" {
			if err := c.assembled(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// sample makes the file of a sample.
func (c *campaign) sample(s *sample, args []string) error {
	if status, text := c.call(context.Background(), args...); status != 0 {
		return fmt.Errorf("%s: exit status %d: %s", strings.Join(args, " "), status, text)
	}
	data, err := os.ReadFile(c.path(s.file))
	if err != nil {
		return err
	}
	s.data = data
	c.samples = append(c.samples, s)
	return nil
}

// assembled makes the sample of a bundle that is assembled from parts.
func (c *campaign) assembled(of *sample) error {
	s := &sample{name: "assembled", file: "assembled.hipfb", checked: true, targets: of.targets, images: of.images}
	plan := []string{"compress-plan", "--align=4096", "--output=plan"}
	assemble := []string{"assemble", "--plan=plan", "--output=" + s.file}
	for i, target := range s.targets {
		plan = append(plan, fmt.Sprintf("--entry=%s=%s-%d.co", target, of.name, i))
	}
	// As in the rules: a part for each family of processors.
	for i, family := range [][]int{{0, 1}, {2}, {3, 4}} {
		part := []string{"compress-part", "--align=4096", fmt.Sprintf("--output=part%d", i)}
		if i < 2 {
			part = append(part, "--pad")
		}
		for _, image := range family {
			part = append(part, fmt.Sprintf("%s-%d.co", of.name, image))
		}
		if status, text := c.call(context.Background(), part...); status != 0 {
			return fmt.Errorf("%s: exit status %d: %s", strings.Join(part, " "), status, text)
		}
		assemble = append(assemble, fmt.Sprintf("part%d", i))
	}
	if status, text := c.call(context.Background(), plan...); status != 0 {
		return fmt.Errorf("%s: exit status %d: %s", strings.Join(plan, " "), status, text)
	}
	return c.sample(s, assemble)
}
