//go:build amd64 || arm64

package main

//lint:file-ignore U1000 the entry point in assembly uses these variables

// Variables of the entry point of the program, offload_entry in entry_linux_*.s. It ends a process whose limit of
// address space is less than leastSpace, with spaceMessage and exit code 1. If the limit is from usedSpace to
// largeSpace, it lowers it to usedSpace: the runtime of Go then reserves what it can do without, and has no
// space for a heap. TestAddressSpace finds both numbers out of date after a new release of Go.
var (
	// stdoutClosed is not 0 if the process was started without standard output, for which the runtime of Go
	// opens /dev/null.
	stdoutClosed uint32

	leastSpace   uint64 = 960 << 20
	usedSpace    uint64 = 1096 << 20
	largeSpace   uint64 = 1408 << 20
	spaceMessage        = "offload: the limit of address space (ulimit -v) is too small for the program: expected at least 983040 KiB; raise the limit\n"
)
