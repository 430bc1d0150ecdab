//go:build !linux

package main

// unblocked reports whether SIGINT, SIGTERM and SIGHUP reach the process, which is not known here.
const unblocked = false
