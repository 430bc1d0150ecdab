//go:build !unix

package scratch

// onEndOfPipe has no effect on systems without SIGPIPE.
func onEndOfPipe(func()) (stop func()) { return func() {} }
