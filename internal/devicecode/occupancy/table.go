package occupancy

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// processorsText is the table of constants; its first lines say what is in it.
//
//go:embed processors.txt
var processorsText string

// Processor has the constants of an amdgcn processor.
type Processor struct {
	Name   string
	Mach   uint8 // low byte of e_flags
	Family int   // first digits of the processor number: 9 for gfx90a
	// AGPRs reports whether the processor has AGPRs, Unified whether they are
	// part of the VGPR file.
	AGPRs, Unified bool

	sgprSteps [][2]int64 // up to so many SGPRs permit so many waves
	sgprFixed int64      // SGPRs that each wave has allocated whatever it uses; 0: what it uses
	wgp, cu   *mode
	wave32    *waves
	wave64    *waves
}

// mode is what the waves of a workgroup share in CU or WGP mode.
type mode struct{ simds, lds, barriers int64 }

// waves are the limits of a wave size.
type waves struct{ most, vgprs, granule, encoding int64 }

// table holds the processors by number.
type table [256]*Processor

var (
	parseProcessors sync.Once
	parsed          *table
)

// processors returns the table in processorsText.
func processors() *table {
	parseProcessors.Do(func() {
		var err error
		if parsed, err = parseTable(processorsText); err != nil {
			panic(err) // the file is part of the program; a test reads it
		}
	})
	return parsed
}

// ByMach returns the constants of the processor with that number in the low
// byte of e_flags, or nil.
func ByMach(mach uint8) *Processor { return processors()[mach] }

// VGPREncodingGranule returns how many VGPRs a block of the kernel descriptor
// stands for, and false for a wave size that the processor does not have.
func (p *Processor) VGPREncodingGranule(wavefrontSize int64) (int64, bool) {
	w := p.waves(wavefrontSize)
	if w == nil {
		return 0, false
	}
	return w.encoding, true
}

func (p *Processor) waves(size int64) *waves {
	switch size {
	case 32:
		return p.wave32
	case 64:
		return p.wave64
	}
	return nil
}

func parseTable(text string) (*table, error) {
	t := new(table)
	for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		p, err := parseProcessor(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("processors.txt:%d: %w", n+1, err)
		}
		if other := t[p.Mach]; other != nil {
			return nil, fmt.Errorf("processors.txt:%d: %s has the number of %s", n+1, p.Name, other.Name)
		}
		t[p.Mach] = p
	}
	return t, nil
}

func parseProcessor(f []string) (*Processor, error) {
	if len(f) != 9 {
		return nil, fmt.Errorf("%d columns, expected 9", len(f))
	}
	p := &Processor{Name: f[0], AGPRs: f[3] != "-", Unified: f[3] == "unified"}
	var err error
	number := func(s string) int64 {
		n, e := strconv.ParseInt(s, 10, 64)
		if e != nil && err == nil {
			err = e
		}
		return n
	}
	numbers := func(s string, want int) []int64 {
		var list []int64
		for part := range strings.SplitSeq(s, ":") {
			list = append(list, number(part))
		}
		if len(list) != want && err == nil {
			err = fmt.Errorf("%q: %d numbers, expected %d", s, len(list), want)
		}
		return append(list, make([]int64, want)...)
	}
	p.Mach, p.Family = uint8(number(f[1])), int(number(f[2]))
	if f[4] != "-" {
		for step := range strings.SplitSeq(f[4], ",") {
			if fixed, ok := strings.CutPrefix(step, "fixed="); ok {
				p.sgprFixed = number(fixed)
				continue
			}
			n := numbers(step, 2)
			p.sgprSteps = append(p.sgprSteps, [2]int64{n[0], n[1]})
		}
	}
	for i, m := range []**mode{&p.wgp, &p.cu} {
		if s := f[5+i]; s != "-" {
			n := numbers(s, 3)
			*m = &mode{n[0], n[1], n[2]}
		}
	}
	for i, w := range []**waves{&p.wave32, &p.wave64} {
		if s := f[7+i]; s != "-" {
			n := numbers(s, 4)
			*w = &waves{n[0], n[1], n[2], n[3]}
		}
	}
	return p, err
}
