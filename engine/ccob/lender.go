package ccob

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/files"
)

const (
	// lendFrom is the smallest window of a decoder whose bytes are lent.
	lendFrom = 4 * lendAtOnce * maxBlock
	// lendAtOnce is how many blocks are lent at a time: waking another core takes time.
	lendAtOnce = 4
)

// A lender hands decoded bytes to another goroutine without a copy: a decoder keeps a window of
// what it has decoded, as matches refer to it, so what it wrote stays where it is for that long,
// see window.
type lender struct {
	some [][]byte // not lent yet
	full chan [][]byte
	done chan struct{}
	err  error // emit's or the context's, when done is closed
}

// newLender returns a lender of blocks from a decoder with the given window. No more than half
// of the window is on loan; none of it is emitted any more when ctx is done.
func newLender(ctx context.Context, window int64, emit func([]byte) error) *lender {
	l := &lender{full: make(chan [][]byte, window/2/(lendAtOnce*maxBlock)-2), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.err = files.Contain(func() error {
			for blocks := range l.full {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				for _, b := range blocks {
					if err := emit(b); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}()
	return l
}

// lend has b emitted, soon.
func (l *lender) lend(b []byte) error {
	if l.some = append(l.some, b); len(l.some) < lendAtOnce {
		return nil
	}
	return l.flush()
}

func (l *lender) flush() error {
	some := l.some
	l.some = make([][]byte, 0, lendAtOnce)
	select {
	case l.full <- some:
		return nil
	case <-l.done:
		return errStopped
	}
}

// end waits until everything was emitted and returns the error of that.
func (l *lender) end() error {
	_ = l.flush() // if it fails, so does emit
	close(l.full)
	<-l.done
	return l.err
}
