//go:build !linux

package linkcache

import "io/fs"

// numberOf returns no number: each link hashes its programs.
func numberOf(fs.FileInfo) number { return number{} }
