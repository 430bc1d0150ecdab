// Release makes the files of a release from the commit that is checked out, and
// checks what a release depends on:
//
//	go -C tools/release run . build DIR   the program for each platform, the module archive, SBOMs, checksums
//	go -C tools/release run . check       two builds in two directories have equal bytes; all licences are known
//
// The files depend on the commit and the Go release alone.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "build":
		return build(args[1])
	case len(args) == 1 && args[0] == "check":
		return check()
	}
	return fmt.Errorf("usage: release build DIR | release check")
}
