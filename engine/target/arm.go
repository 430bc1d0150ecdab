package target

import "strings"

// armArchs are the architecture versions of ARM, searched in order for a name that *ends* with the
// version in a triple, so v7s is after v7-a and "te" means ARMv5TE.
var armArchs = []named[SubArch]{
	{"invalid", ""},
	{"armv4", ""},
	{"armv4t", "v4t"},
	{"armv5t", "v5"},
	{"armv5te", "v5te"},
	{"armv5tej", "v5te"},
	{"armv6", "v6"},
	{"armv6k", "v6k"},
	{"armv6t2", "v6t2"},
	{"armv6kz", "v6k"},
	{"armv6-m", "v6m"},
	{"armv7-a", "v7"},
	{"armv7ve", "v7ve"},
	{"armv7-r", "v7"},
	{"armv7-m", "v7m"},
	{"armv7e-m", "v7em"},
	{"armv8-a", "v8"},
	{"armv8.1-a", "v8.1a"},
	{"armv8.2-a", "v8.2a"},
	{"armv8.3-a", "v8.3a"},
	{"armv8.4-a", "v8.4a"},
	{"armv8.5-a", "v8.5a"},
	{"armv8.6-a", "v8.6a"},
	{"armv8.7-a", "v8.7a"},
	{"armv8.8-a", "v8.8a"},
	{"armv8.9-a", "v8.9a"},
	{"armv9-a", "v9"},
	{"armv9.1-a", "v9.1a"},
	{"armv9.2-a", "v9.2a"},
	{"armv9.3-a", "v9.3a"},
	{"armv9.4-a", "v9.4a"},
	{"armv9.5-a", "v9.5a"},
	{"armv9.6-a", "v9.6a"},
	{"armv9.7-a", "v9.7a"},
	{"armv8-r", "v8r"},
	{"armv8-m.base", "v8m.base"},
	{"armv8-m.main", "v8m.main"},
	{"armv8.1-m.main", "v8.1m.main"},
	{"iwmmxt", "v5te"},
	{"iwmmxt2", "v5te"},
	{"xscale", "v5te"},
	{"armv7s", "v7s"},
	{"armv7k", "v7k"},
}

// thumbOnly is the architecture version that has no instructions but Thumb's, which LLVM looks at.
const thumbOnly = "armv6-m"

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
func armArchOf(name string) named[SubArch] {
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
	return named[SubArch]{}
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
	if a := armArchOf(name); thumb || a.name == thumbOnly {
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
