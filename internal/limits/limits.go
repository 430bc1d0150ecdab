// Package limits has the limits that the readers of several formats have for crafted files, and that the
// writers of these formats therefore keep. Limits of one format are in its package.
package limits

const (
	// Found is the largest number of images, offload binaries, bundles and archive members in a file.
	Found = 1 << 20
	// Members is the largest number of members of a package or wheel, and of rows in its RECORD.
	Members = 1 << 20
	// Name is the largest length of the name of a member of a package or wheel, in bytes, as in Linux.
	Name = 1 << 12
	// Inflated is the largest uncompressed size of all compressed offload binaries of a file, in bytes.
	Inflated = 1 << 30
)
