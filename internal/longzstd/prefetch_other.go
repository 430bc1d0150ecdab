//go:build !amd64 || purego

package longzstd

// prefetch does nothing: Go has no instruction for it.
func (p *parser) prefetch([]byte, int) {}
