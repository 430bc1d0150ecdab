package worker

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// output collects the text of one response.
type output struct {
	mu      sync.Mutex
	buf     []byte
	limit   int
	dropped int64
	closed  bool
}

// Write keeps p up to the limit.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, io.ErrClosedPipe
	}
	n := min(len(p), o.limit-len(o.buf))
	o.buf = append(o.buf, p[:n]...)
	o.dropped += int64(len(p) - n)
	return len(p), nil
}

// take closes the output and returns its text, as valid UTF-8, which the encoding of a response
// requires.
func (o *output) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := strings.ToValidUTF8(string(o.buf), "\uFFFD")
	if o.dropped > 0 {
		text = fmt.Sprintf("%s\n(%d more bytes of output are not shown)\n", strings.TrimSuffix(text, "\n"), o.dropped)
	}
	o.closed, o.buf = true, nil
	return text
}
