package offloadbinary

import (
	"fmt"
	"strconv"
	"strings"
)

// version is a version of the format.
type version struct {
	llvm           int  // the first release of LLVM that reads it
	header, record int  // sizes in bytes
	single         bool // a package has one image, and the header has the size of an entry instead of their number
	values         bool // a record has the size of the value, which may contain a NUL
	compresses     bool // the header has an inflated size
}

// versions are the versions of the format by their number.
var versions = [...]version{
	1: {llvm: 15, header: headerSize, record: recordSizeV1, single: true},
	2: {llvm: 23, header: headerSize, record: recordSize, values: true},
	3: {llvm: 24, header: headerSizeV3, record: recordSize, values: true, compresses: true},
}

const (
	// DefaultVersion is the version that every LLVM since 15 reads.
	DefaultVersion = 1
	// CompressedVersion is the first version whose packages can be compressed.
	CompressedVersion = 3
	// NewestVersion is the newest version that Parse reads and Write writes. The oldest one is 1.
	NewestVersion = len(versions) - 1
)

// FirstRelease returns the first release of LLVM that reads a version from 1 to NewestVersion.
func FirstRelease(version int) int { return versions[version].llvm }

// isVersion reports whether the format has a version.
func isVersion(number int) bool { return number >= 1 && number <= NewestVersion }

// checkVersion returns an error for a version that cannot be written.
func checkVersion(number int) error {
	if isVersion(number) {
		return nil
	}
	var known []string
	for n := 1; n < NewestVersion; n++ {
		known = append(known, strconv.Itoa(n))
	}
	return fmt.Errorf("offload binaries of version %d cannot be written, expected %s or %d", number, strings.Join(known, ", "), NewestVersion)
}
