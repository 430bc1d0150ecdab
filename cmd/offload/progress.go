package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rules-offload/rules_offload/engine"
)

const (
	progressAfter = 700 * time.Millisecond // shorter operations print nothing
	progressEvery = 100 * time.Millisecond
	clearLine     = "\r\x1b[K"
)

// progress shows the progress of a long operation on a terminal. Text that is written through
// it replaces the line.
type progress struct {
	meter engine.Meter
	stop  chan struct{}
	ended chan struct{}

	mu    sync.Mutex
	w     io.Writer
	shown bool
}

// startProgress starts to watch meter. Call end before the process ends.
func startProgress(w io.Writer) *progress {
	p := &progress{w: w, stop: make(chan struct{}), ended: make(chan struct{})}
	go p.watch(time.Now()) // unguarded: it prints numbers
	return p
}

func (p *progress) watch(start time.Time) {
	defer close(p.ended)
	timer := time.NewTimer(progressAfter)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-timer.C:
			p.show(time.Since(start))
			timer.Reset(progressEvery)
		}
	}
}

// show draws the line.
func (p *progress) show(took time.Duration) {
	done, total := p.meter.Read()
	if total == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = true
	fmt.Fprintf(p.w, "%s%3d %%  %d of %d MB  %.0f MB/s", clearLine, min(done*100/total, 99), done/1e6, total/1e6, float64(done)/1e6/took.Seconds())
}

// Write clears the line and writes b.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.w.Write(b)
}

// clear removes the line. It needs mu.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, clearLine)
		p.shown = false
	}
}

// end stops and removes the line.
func (p *progress) end() {
	close(p.stop)
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// terminal reports whether f is a terminal that supports clearLine.
func terminal(f *os.File) bool {
	fi, err := f.Stat()
	if err != nil || fi.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(fi, null)
}
