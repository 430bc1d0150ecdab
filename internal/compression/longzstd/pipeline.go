package longzstd

import (
	"runtime/debug"
	"slices"
	"sync"
)

// queuedBlocks is the maximum number of blocks that wait between the parser and the writer.
const queuedBlocks = 8

// A pipeline divides between two goroutines what must be done in order: parsing, coding
// what was parsed and, if the caller has it, other work on the same bytes. Parsing takes
// longest, so its goroutine does nothing else while there is room for blocks. The other
// codes and does the caller's work, which it keeps where the parser is: then everything is
// done at the same time.
type pipeline struct {
	src    []byte
	effort effort
	code   func(*block) error

	mu     sync.Mutex
	change sync.Cond // of anything below
	free   []*block
	queue  []*block // parsed, in order
	coding bool     // a goroutine codes what was first in queue
	parsed int      // up to where
	stop   bool     // the parser's goroutine shall end
	ended  bool     // it has
	err    error
	fault  any // its panic: the source may be a file that was cut short
}

func newPipeline(src []byte, e effort, code func(*block) error) *pipeline {
	l := &pipeline{src: src, effort: e, code: code}
	l.change.L = &l.mu
	for range queuedBlocks {
		l.free = append(l.free, blocks.Get().(*block))
	}
	return l
}

// run does everything; of beside as much as there is time for.
func (l *pipeline) run(beside func() int) error {
	l.mu.Lock()
	go l.parse()
	defer func() {
		// The source may be gone when this returns.
		l.stop = true
		l.change.Broadcast()
		for !l.ended {
			l.change.Wait()
		}
		for _, b := range slices.Concat(l.free, l.queue) {
			blocks.Put(b)
		}
		l.mu.Unlock()
	}()
	done := BesideDone
	if beside != nil {
		done = 0
	}
	for l.err == nil && l.fault == nil && !(l.ended && len(l.queue) == 0) {
		ready := len(l.queue) > 0 && !l.coding
		switch {
		case done != BesideDone && (!ready || done < l.parsed):
			l.unlocked(func() { done = beside() })
		case ready:
			l.codeOne()
		default:
			l.change.Wait()
		}
	}
	if l.fault != nil {
		panic(l.fault)
	}
	return l.err
}

// parse is the parser's goroutine. It codes where there is nowhere to put blocks, and
// in the end.
func (l *pipeline) parse() {
	debug.SetPanicOnFault(true)
	l.mu.Lock()
	defer func() {
		l.fault = recover()
		l.ended = true
		l.change.Broadcast()
		l.mu.Unlock()
	}()
	var p *parser
	l.unlocked(func() { p = newParser(l.src, l.effort) })
	defer p.release()
	for more := true; l.err == nil && !l.stop; {
		switch {
		case more && len(l.free) > 0:
			b := l.free[len(l.free)-1]
			l.free = l.free[:len(l.free)-1]
			l.unlocked(func() { more = p.next(b) })
			if more {
				l.queue = append(l.queue, b)
				l.parsed = b.end
				l.change.Broadcast()
			}
		case len(l.queue) > 0 && !l.coding:
			l.codeOne()
		case !more && !l.coding:
			return
		default:
			l.change.Wait()
		}
	}
}

// codeOne codes the first block of the queue.
func (l *pipeline) codeOne() {
	b := l.queue[0]
	l.queue = l.queue[1:]
	l.coding = true
	var err error
	l.unlocked(func() { err = l.code(b) })
	l.coding = false
	if l.err == nil {
		l.err = err
	}
	l.free = append(l.free, b)
	l.change.Broadcast()
}

// unlocked runs f without the lock.
func (l *pipeline) unlocked(f func()) {
	l.mu.Unlock()
	defer l.mu.Lock()
	f()
}
