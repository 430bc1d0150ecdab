// Package release has the differences between the releases of LLVM that the drop-ins for its tools
// can follow. What a tool does in another way in a new release is a field of Release, set in one table; the
// code of a tool asks the field, never the number.
package release

import (
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/llvmcl"
)

// Variable is the variable of the environment that chooses a release: 22, 23 or 24. If it is
// not set, Default is followed.
const Variable = "OFFLOAD_LLVM_VERSION"

// Default is the number of the release that is followed if nothing chooses one: the newest whose
// outputs all older releases read. llvm-offload-binary of LLVM 23 writes containers that 22 refuses.
const Default = 22

// Release is what the tools of one release of LLVM do.
type Release struct {
	Number  int    // 22, 23 or 24
	Version string // as --version has it, such as 22.1.8
	Package string // the version of Debian's package, as --version of clang's tools has it

	// Container is the version of the offload binaries that are written, by
	// llvm-offload-binary and in objects.
	Container int
	// CompressesContainers says that llvm-offload-binary has the options --compress,
	// --compression-format and --compression-level.
	CompressesContainers bool
	// NextBucket says that LLVM's hash tables look for a free bucket in the one after the first, not
	// at growing distance. The order of listings follows.
	NextBucket bool
	// SmallWords says that messages of clang-offload-bundler about compressed data begin with a
	// small letter, and that of uncompressed ones ends without a full stop.
	SmallWords bool
	// AnyTypeOfEmpty says that clang-offload-bundler does not look at -type where it reads an empty file.
	AnyTypeOfEmpty bool
	// ListsMembers says that clang-offload-bundler -list -type=a lists the entries of the members.
	ListsMembers bool
	// Syntax is that of the command lines of all tools.
	Syntax llvmcl.Syntax
}

// releases has a line for each release that can be followed, oldest first.
var releases = []Release{
	{Number: 22, Version: "22.1.8", Package: "1+b2", Container: 1},
	{
		Number: 23, Version: "23.1.4", Package: "2", Container: 2, NextBucket: true, SmallWords: true,
		AnyTypeOfEmpty: true, ListsMembers: true, Syntax: llvmcl.Syntax{EmptyQuotes: true},
	},
	{
		Number: 24, Version: "24.0.0", Package: "++20261025103442+7e3c57157096-1~exp1", Container: 3, NextBucket: true, SmallWords: true,
		AnyTypeOfEmpty: true, ListsMembers: true, Syntax: llvmcl.Syntax{EmptyQuotes: true, StrictBools: true, NoGroups: true, HelpAlias: true},
		CompressesContainers: true,
	},
}

// Of returns the release of that number.
func Of(number int) (Release, bool) {
	for _, r := range releases {
		if r.Number == number {
			return r, true
		}
	}
	return Release{}, false
}

// parse returns the release of a number as people write it: 23, or a version of it such as 23.1.4. An
// empty string stands for Default.
func parse(s string) (Release, error) {
	if s == "" {
		r, _ := Of(Default)
		return r, nil
	}
	number, _, _ := strings.Cut(s, ".")
	var known []string
	for _, r := range releases {
		if fmt.Sprint(r.Number) == number {
			return r, nil
		}
		known = append(known, fmt.Sprint(r.Number))
	}
	return Release{}, fmt.Errorf("%s: found %q, expected %s; unset it to follow LLVM %d", Variable, s, strings.Join(known, ", "), Default)
}

// FromEnv returns the release that the environment chooses. lookup returns the value of a variable.
func FromEnv(lookup func(name string) (value string, set bool)) (Release, error) {
	value, _ := lookup(Variable)
	return parse(value)
}
