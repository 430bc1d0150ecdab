package ccob

import (
	"errors"

	"github.com/rules-offload/rules_offload/engine/files"
)

const (
	pumpFrom  = 1 << 20 // bytes from which on a second goroutine is worth while
	pumpChunk = 512 << 10
	pumpAhead = 4 // chunks that may wait
)

// errStopped ends the producer when the consumer has failed.
var errStopped = errors.New("nobody takes the bytes")

// pumped runs produce with a function that hands bytes, copied, to consume, which
// runs on another core if there is one and there are bytes enough.
func (r *Reader) pumped(n int64, consume func([]byte) error, produce func(emit func([]byte) error) error) error {
	if n < pumpFrom || r.budget.Cores() < 2 {
		return produce(consume)
	}
	full, free := make(chan []byte, pumpAhead), make(chan []byte, pumpAhead)
	for range pumpAhead {
		free <- make([]byte, 0, pumpChunk)
	}
	var failure error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := range full {
			if failure = files.Contain(func() error { return consume(b) }); failure != nil {
				return
			}
			free <- b[:0]
		}
	}()
	cur := <-free
	err := files.Contain(func() error {
		return produce(func(b []byte) error {
			for len(b) > 0 {
				n := min(len(b), pumpChunk-len(cur))
				cur = append(cur, b[:n]...)
				b = b[n:]
				if len(cur) == pumpChunk {
					full <- cur // there is room for every chunk
					select {
					case cur = <-free:
					case <-done:
						return errStopped
					}
				}
			}
			return nil
		})
	})
	if err == nil && len(cur) > 0 {
		full <- cur
	}
	close(full)
	<-done
	if failure != nil {
		return failure
	}
	return err
}
