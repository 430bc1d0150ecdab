//go:build !linux || (!amd64 && !arm64)

package main

// stdoutClosed is not known here.
const stdoutClosed = 0
