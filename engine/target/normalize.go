package target

import (
	"slices"
	"strconv"
	"strings"
)

// Normalize returns a triple in LLVM's normal form: every part that is
// recognised as an architecture, vendor, operating system or environment is
// moved to its field, empty parts become "unknown", and names for which LLVM
// has only one spelling (win32, mingw32, cygwin, androideabi, SUSE's gnueabi,
// dxil) get that spelling. If fields > 0, the result is truncated or filled
// with "unknown" to that number of fields; 0 means any number.
func Normalize(triple string, fields int) string {
	n := normalizer{parts: strings.Split(triple, "-")}
	n.place()
	n.respell()
	if fields > 0 {
		n.resize(fields, "unknown")
	}
	return strings.Join(n.parts, "-")
}

// The fields of the four kinds of parts.
const (
	archPlace = iota
	vendorPlace
	osPlace
	envPlace
	places
)

// normalizer holds the parts of a triple while they are moved, and the values
// as which the last parts were recognised.
type normalizer struct {
	parts  []string
	fixed  [places]bool // whether the field holds a part that belongs there
	vendor Vendor
	os     OS
	env    Env
	format ObjectFormat
	cygwin bool
	mingw  bool
}

// recognise reports whether s is a part for the given field, and records its
// value.
func (n *normalizer) recognise(place int, s string) bool {
	switch place {
	case archPlace:
		return parseArch(s) != ArchUnknown
	case vendorPlace:
		n.vendor = vendorNames.of(s)
		return n.vendor != ""
	case osPlace:
		n.os = parseOS(s)
		n.cygwin = strings.HasPrefix(s, "cygwin")
		n.mingw = strings.HasPrefix(s, "mingw")
		return n.os != "" || n.cygwin || n.mingw
	default:
		n.env = parseEnv(s)
		if n.env != "" {
			return true
		}
		n.format = parseFormat(s)
		return n.format != ""
	}
}

// place moves parts to their fields. Parts that are already in the right field
// are not moved, even if they also have a second meaning.
func (n *normalizer) place() {
	if len(n.parts) > places {
		n.format = parseFormat(n.parts[places])
	}
	for p := range min(places, len(n.parts)) {
		s := n.parts[p]
		switch p {
		case osPlace:
			// mingw and cygwin stand for both a system and an environment, so this is
			// not final.
			n.recognise(p, s)
			n.fixed[p] = n.os != ""
		case envPlace:
			// An environment may still replace an object format.
			n.env = parseEnv(s)
			n.fixed[p] = n.env != ""
		default:
			n.fixed[p] = n.recognise(p, s)
		}
	}
	for p := range places {
		if n.fixed[p] {
			continue
		}
		for i := range n.parts {
			if i < places && n.fixed[i] || !n.recognise(p, n.parts[i]) {
				continue
			}
			if p < i {
				n.moveLeft(i, p)
			} else if p > i {
				n.moveRight(i, p)
			}
			n.fixed[p] = true
			break
		}
	}
	// In triples like none-eabi, none is the system, not the vendor.
	if n.fixed[archPlace] && !n.fixed[vendorPlace] && !n.fixed[osPlace] && n.fixed[envPlace] &&
		n.parts[vendorPlace] == "none" && n.parts[osPlace] == "" {
		n.parts[vendorPlace], n.parts[osPlace] = "", "none"
	}
	for i, s := range n.parts {
		if s == "" {
			n.parts[i] = "unknown"
		}
	}
}

// next returns the first field after i without a fixed part.
func (n *normalizer) next(i int) int {
	for i++; i < places && n.fixed[i]; i++ {
	}
	return i
}

// moveLeft moves the part at from to the field to, and shifts the parts between
// them to the right.
func (n *normalizer) moveLeft(from, to int) {
	carried := n.parts[from]
	n.parts[from] = ""
	for i := to; carried != ""; i = n.next(i) {
		carried, n.parts[i] = n.parts[i], carried
	}
}

// moveRight moves the part at from to the field to by inserting empty parts
// before it. Parts shifted beyond the end are appended.
func (n *normalizer) moveRight(from, to int) {
	for from < to {
		carried := ""
		for i := from; i < len(n.parts); i = n.next(i) {
			carried, n.parts[i] = n.parts[i], carried
			if carried == "" {
				break
			}
		}
		if carried != "" {
			n.parts = append(n.parts, carried)
		}
		from = n.next(from)
	}
}

// respell replaces parts that have only one spelling.
func (n *normalizer) respell() {
	if n.env == envAndroid {
		if version, ok := strings.CutPrefix(n.parts[envPlace], "androideabi"); ok {
			n.parts[envPlace] = "android" + version
		}
	}
	if n.vendor == vendorSUSE && n.env == envGNUEABI {
		n.parts[envPlace] = "gnueabihf" // the meaning of gnueabi for SUSE
	}

	foreign := n.format != "" && n.format != formatCOFF // not the format of Windows
	switch {
	case n.os == osWindows:
		n.resize(places, "")
		n.parts[osPlace] = "windows"
		if n.env == "" {
			n.parts[envPlace] = "msvc"
			if foreign {
				n.parts[envPlace] = string(n.format)
			}
		}
	case n.mingw, n.cygwin:
		n.resize(places, "")
		n.parts[osPlace] = "windows"
		n.parts[envPlace] = "cygnus"
		if n.mingw {
			n.parts[envPlace] = "gnu"
		}
	}
	if foreign && (n.mingw || n.cygwin || n.os == osWindows && n.env != "") {
		n.resize(places+1, "")
		n.parts[places] = string(n.format)
	}

	if n.parts[archPlace] == "dxil" {
		n.parts = n.parts[:min(places, len(n.parts))]
		if n.os == osShaderModel {
			n.parts[archPlace] = dxilName(n.parts[osPlace])
		}
	}
}

// resize truncates or fills the parts to count.
func (n *normalizer) resize(count int, fill string) {
	if len(n.parts) > count {
		n.parts = n.parts[:count]
		return
	}
	n.parts = append(n.parts, slices.Repeat([]string{fill}, count-len(n.parts))...)
}

// dxilName returns the architecture of a shader model: DXIL 1.N belongs to
// shader model 6.N, and 1.0 to all others.
func dxilName(shaderModel string) string {
	version := strings.TrimPrefix(shaderModel, string(osShaderModel))
	if version == "6.x" {
		return "dxilv1.9" // the newest
	}
	numbers := make([]uint64, 0, 4)
	for _, part := range strings.Split(version, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || len(numbers) == cap(numbers) {
			return "dxilv1.0" // no version
		}
		numbers = append(numbers, n)
	}
	if len(numbers) > 1 && numbers[0] == 6 && numbers[1] <= 9 {
		return "dxilv1." + strconv.FormatUint(numbers[1], 10)
	}
	return "dxilv1.0"
}
