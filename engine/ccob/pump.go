package ccob

import (
	"errors"
	"sync"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const (
	pumpFrom  = 1 << 20 // smallest number of bytes for which a second goroutine is used
	pumpChunk = 512 << 10
	pumpAhead = 4 // chunks that may wait
)

// errStopped stops the producer after the consumer has failed.
var errStopped = errors.New("the reader of the bytes has stopped")

// chunks is a pool of chunks.
var chunks = sync.Pool{New: func() any { return &chunk{b: make([]byte, 0, pumpChunk)} }}

// chunk holds bytes for the consumer.
type chunk struct{ b []byte }

// pumped runs produce with a function that passes copies of bytes to consume,
// which runs on another core.
func pumped(consume func(b []byte) error, produce func(emit func(b []byte) error) error) error {
	full, free := make(chan *chunk, pumpAhead), make(chan *chunk, pumpAhead)
	for range pumpAhead {
		free <- chunks.Get().(*chunk)
	}
	var failure error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c := range full {
			if failure = guard.Contain(func() error { return consume(c.b) }); failure != nil {
				return
			}
			c.b = c.b[:0]
			free <- c
		}
	}()
	cur := <-free
	err := guard.Contain(func() error {
		return produce(func(b []byte) error {
			for len(b) > 0 {
				n := min(len(b), pumpChunk-len(cur.b))
				cur.b = append(cur.b, b[:n]...)
				if b = b[n:]; len(cur.b) < pumpChunk {
					return nil
				}
				full <- cur // the channel has capacity for every chunk
				select {
				case cur = <-free:
				case <-done:
					return errStopped
				}
			}
			return nil
		})
	})
	if err == nil && len(cur.b) > 0 {
		full <- cur
	}
	close(full)
	<-done
	if failure != nil {
		return failure
	}
	for len(free) > 0 {
		chunks.Put(<-free)
	}
	return err
}
