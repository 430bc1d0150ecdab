package ccob

import (
	"context"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const (
	// lendFrom is the smallest decoder window whose bytes are lent.
	lendFrom = 4 * lendAtOnce * maxBlock
	// lendAtOnce is the number of blocks lent at a time, because waking another
	// core takes time.
	lendAtOnce = 4
)

// A lender passes decoded bytes to another goroutine without a copy. A decoder keeps a window of
// decoded bytes, because matches refer to it, so the bytes do not move until the window has
// passed them; see window.
type lender struct {
	some [][]byte // not lent yet
	full chan [][]byte
	done chan struct{}
	err  error // the error of emit or the context, after done is closed
}

// newLender returns a lender of blocks from a decoder with the given window. At most half of
// the window is lent at a time. After ctx is done, nothing is emitted.
func newLender(ctx context.Context, window int64, emit func([]byte) error) *lender {
	l := &lender{full: make(chan [][]byte, window/2/(lendAtOnce*maxBlock)-2), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.err = guard.Contain(func() error {
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

// lend queues b to be emitted.
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

// end waits until everything is emitted and returns the error.
func (l *lender) end() error {
	_ = l.flush() // it fails only if emit fails
	close(l.full)
	<-l.done
	return l.err
}
