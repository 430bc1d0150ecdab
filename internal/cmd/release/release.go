// Package release has the differences between the releases of LLVM that the drop-ins can
// follow. A change of behavior between releases is a field of Release, set in one table, or, for what links and
// registrations contain, of dialect.Dialect. The code of a tool tests the field, never the number.
package release

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/llvmcl"
)

// Variable is the environment variable that selects a release: 22, 23 or 24. If it is not set,
// the tools follow Default.
const Variable = "OFFLOAD_LLVM_VERSION"

// Default is the number of the release that the tools follow by default: the newest whose
// outputs all older releases read. llvm-offload-binary of LLVM 23 writes containers that 22
// rejects.
const Default = target.LLVM22

// Release is the behavior of the tools of one release of LLVM.
type Release struct {
	// Release selects what the engine does.
	target.Release
	Version string // as --version has it, such as 22.1.8
	Package string // the version of Debian's package, as --version of clang's tools has it

	// Container is the version of offload binaries that llvm-offload-binary writes, and of
	// those in objects.
	Container int
	// CompressesContainers reports whether llvm-offload-binary has the options --compress,
	// --compression-format and --compression-level.
	CompressesContainers bool
	// SmallWords reports whether messages of clang-offload-bundler about compressed data begin
	// with a lower-case letter, and the message about uncompressed data ends without a full
	// stop.
	SmallWords bool
	// AnyTypeOfEmpty reports whether clang-offload-bundler ignores -type for an empty file.
	AnyTypeOfEmpty bool
	// ListsMembers reports whether clang-offload-bundler -list -type=a lists the entries of the
	// members.
	ListsMembers bool
	// Wraps are the kinds of llvm-offload-wrapper.
	Wraps offloadbinary.OffloadKind
	// WrapsRelocatable reports whether llvm-offload-wrapper has the option --relocatable.
	WrapsRelocatable bool
	// SYCL is the release whose code llvm-offload-wrapper writes for SYCL: where it has none of its own, that of the
	// first release that has one.
	SYCL target.Release
	// BinaryTool is the release whose llvm-offload-binary the drop-in is: LLVM 22 has an earlier one.
	BinaryTool target.Release
	// TempsBesideOutput reports whether clang-linker-wrapper --save-temps writes files next to its output, not in the
	// working directory.
	TempsBesideOutput bool
	// Syntax is the command line syntax of all tools.
	Syntax llvmcl.Syntax
}

// wrapped are the kinds of llvm-offload-wrapper in all releases.
const wrapped = offloadbinary.OpenMP | offloadbinary.CUDA | offloadbinary.HIP

// releases lists the supported releases, oldest first.
var releases = []Release{
	{Release: target.LLVM22, Version: "22.1.8", Package: "1+b2", Container: 1, Wraps: wrapped, SYCL: target.LLVM23, BinaryTool: target.LLVM23},
	{
		Release: target.LLVM23, Version: "23.1.4", Package: "2", Container: 2, SmallWords: true,
		AnyTypeOfEmpty: true, ListsMembers: true, Syntax: llvmcl.Syntax{EmptyQuotes: true},
		Wraps: wrapped | offloadbinary.SYCL, WrapsRelocatable: true, SYCL: target.LLVM23, BinaryTool: target.LLVM23, TempsBesideOutput: true,
	},
	{
		Release: target.LLVM24, Version: "24.0.0", Package: "++20261025103442+7e3c57157096-1~exp1", Container: 3, SmallWords: true,
		AnyTypeOfEmpty: true, ListsMembers: true, Syntax: llvmcl.Syntax{EmptyQuotes: true, StrictBools: true, NoGroups: true, HelpAlias: true},
		CompressesContainers: true, Wraps: wrapped | offloadbinary.SYCL, WrapsRelocatable: true, SYCL: target.LLVM24, BinaryTool: target.LLVM24, TempsBesideOutput: true,
	},
}

// SetUp gives a tool the syntax of the release, and the order of its options in LLVM's hash table:
// nextBucket in releases with linear probing. It adds the option -h, except where every tool has
// it, and then returns nil.
func (r Release) SetUp(tool *llvmcl.Tool, order, nextBucket []string) (help *llvmcl.Opt[bool]) {
	tool.Order, tool.Syntax = order, r.Syntax
	if r.LinearProbing() {
		tool.Order = nextBucket
	}
	if !r.Syntax.HelpAlias {
		help = tool.Bool("h", "Alias for -help")
		help.Hide()
	}
	return help
}

// HostTriple is LLVM's triple for the machine that the program runs on.
func HostTriple() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64-pc-linux-gnu"
	case "arm64":
		return "aarch64-unknown-linux-gnu"
	}
	return runtime.GOARCH + "-unknown-linux-gnu"
}

// parse returns the number of a supported release for a number or version, such as 23 or 23.1.4.
func parse(s string) (target.Release, error) {
	number, _, _ := strings.Cut(s, ".")
	var known []string
	for _, r := range releases {
		if fmt.Sprint(r.Release) == number {
			return r.Release, nil
		}
		known = append(known, fmt.Sprint(r.Release))
	}
	return 0, fmt.Errorf("%s: found %q, expected %s; unset it to follow LLVM %d", Variable, s, strings.Join(known, ", "), Default)
}
