package target

import "strings"

// armArch is an architecture version of ARM.
type armArch struct {
	name    string
	sub     SubArch
	version int  // 4 to 9; 0 if it has none
	mclass  bool // the microcontroller profile, which has Thumb only
}

// armArchs is searched in order for a name that *ends* with the version in a
// triple, so v7s is after v7-a and "te" means ARMv5TE.
var armArchs = []armArch{
	{"invalid", "", 0, false},
	{"armv4", "", 4, false},
	{"armv4t", "v4t", 4, false},
	{"armv5t", "v5", 5, false},
	{"armv5te", "v5te", 5, false},
	{"armv5tej", "v5te", 5, false},
	{"armv6", "v6", 6, false},
	{"armv6k", "v6k", 6, false},
	{"armv6t2", "v6t2", 6, false},
	{"armv6kz", "v6k", 6, false},
	{"armv6-m", "v6m", 6, true},
	{"armv7-a", "v7", 7, false},
	{"armv7ve", "v7ve", 7, false},
	{"armv7-r", "v7", 7, false},
	{"armv7-m", "v7m", 7, true},
	{"armv7e-m", "v7em", 7, true},
	{"armv8-a", "v8", 8, false},
	{"armv8.1-a", "v8.1a", 8, false},
	{"armv8.2-a", "v8.2a", 8, false},
	{"armv8.3-a", "v8.3a", 8, false},
	{"armv8.4-a", "v8.4a", 8, false},
	{"armv8.5-a", "v8.5a", 8, false},
	{"armv8.6-a", "v8.6a", 8, false},
	{"armv8.7-a", "v8.7a", 8, false},
	{"armv8.8-a", "v8.8a", 8, false},
	{"armv8.9-a", "v8.9a", 8, false},
	{"armv9-a", "v9", 9, false},
	{"armv9.1-a", "v9.1a", 9, false},
	{"armv9.2-a", "v9.2a", 9, false},
	{"armv9.3-a", "v9.3a", 9, false},
	{"armv9.4-a", "v9.4a", 9, false},
	{"armv9.5-a", "v9.5a", 9, false},
	{"armv9.6-a", "v9.6a", 9, false},
	{"armv9.7-a", "v9.7a", 9, false},
	{"armv8-r", "v8r", 8, false},
	{"armv8-m.base", "v8m.base", 8, true},
	{"armv8-m.main", "v8m.main", 8, true},
	{"armv8.1-m.main", "v8.1m.main", 8, true},
	{"iwmmxt", "v5te", 5, false},
	{"iwmmxt2", "v5te", 5, false},
	{"xscale", "v5te", 5, false},
	{"armv7s", "v7s", 7, false},
	{"armv7k", "v7k", 7, false},
}

// armSynonyms are other spellings of the ends of names in armArchs, except that of the hyphen before a.
var armSynonyms = table[string]{
	{"aarch64", "v8-a"},
	{"arm64", "v8-a"},
	{"v5", "v5t"},
	{"v5e", "v5te"},
	{"v6hl", "v6k"},
	{"v6j", "v6"},
	{"v6m", "v6-m"},
	{"v6s-m", "v6-m"},
	{"v6sm", "v6-m"},
	{"v6z", "v6kz"},
	{"v6zk", "v6kz"},
	{"v7", "v7-a"},
	{"v7em", "v7e-m"},
	{"v7hl", "v7-a"},
	{"v7l", "v7-a"},
	{"v7m", "v7-m"},
	{"v7r", "v7-r"},
	{"v8", "v8-a"},
	{"v8.1m.main", "v8.1-m.main"},
	{"v8l", "v8-a"},
	{"v8m.base", "v8-m.base"},
	{"v8m.main", "v8-m.main"},
	{"v8r", "v8-r"},
	{"v9", "v9-a"},
}

// armPrefixes are the families whose names include a version, the longest
// first.
var armPrefixes = []string{"arm64_32", "arm64e", "arm64", "aarch64_32", "arm", "thumb", "aarch64"}

// armCanonicalName strips family and byte order from the name of an ARM
// architecture ("armebv7a" gives "v7a"). It returns a name without a version
// unchanged, and "" for a malformed one. It also returns names of other
// architectures unchanged, because LLVM looks up the version of every
// architecture.
func armCanonicalName(s string) string {
	rest, prefix := s, ""
	for _, p := range armPrefixes {
		if strings.HasPrefix(s, p) {
			prefix, rest = p, s[len(p):]
			break
		}
	}
	if prefix == "aarch64" {
		if strings.Contains(s, "eb") {
			return ""
		}
		rest = strings.TrimPrefix(rest, "_be")
	}
	if after, ok := strings.CutPrefix(rest, "eb"); ok && prefix != "" {
		rest = after
	} else {
		rest = strings.TrimSuffix(rest, "eb")
	}
	if rest == "" {
		return s
	}
	if prefix != "" {
		if len(rest) >= 2 && (rest[0] != 'v' || rest[1] < '0' || rest[1] > '9') {
			return ""
		}
		if strings.Contains(rest, "eb") {
			return ""
		}
	}
	return rest
}

// armArchOf returns the architecture version at the end of a name.
func armArchOf(name string) armArch {
	name = armCanonicalName(name)
	if s, ok := armSynonyms.get(name); ok {
		name = s
	} else if version, ok := strings.CutSuffix(name, "a"); ok && strings.HasPrefix(version, "v") && strings.Trim(version, "v.0123456789") == "" {
		name = version + "-a"
	}
	for _, a := range armArchs {
		if strings.HasSuffix(a.name, name) {
			return a
		}
	}
	return armArch{}
}

// parseARMArch recognises the versioned names of the ARM families.
func parseARMArch(s string) Arch {
	big := strings.HasPrefix(s, "armeb") || strings.HasPrefix(s, "thumbeb") ||
		strings.HasPrefix(s, "aarch64_be") ||
		!strings.HasPrefix(s, "aarch64") && strings.HasSuffix(s, "eb")

	name := armCanonicalName(s)
	if name == "" {
		return ArchUnknown
	}
	thumb := strings.HasPrefix(s, "thumb")
	if thumb && (strings.HasPrefix(name, "v2") || strings.HasPrefix(name, "v3")) {
		return ArchUnknown // Thumb came with version 4
	}
	arch := Arch("arm")
	if a := armArchOf(name); thumb || a.mclass && a.version == 6 {
		arch = "thumb"
	} else if strings.HasPrefix(s, "arm64") || strings.HasPrefix(s, "aarch64") {
		if big {
			return "aarch64_be"
		}
		return "aarch64"
	}
	if big {
		arch += "eb"
	}
	return arch
}
