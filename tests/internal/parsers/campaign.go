// Package parsers gives the parsers of the program damaged inputs, some hundred
// thousand a second: seeds of every format whose bits, integers and ranges change.
// An input that a parser must not answer as it does is made as small as possible and
// written to a file.
//
// Every parser must return; without a panic, without access to a byte outside its
// input, without a change of the input, and with memory linear in the size of the
// input. List has what must hold for each.
package parsers

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Parser is a function that reads input, with its limits.
type Parser struct {
	Name  string
	Seeds [][]byte
	// Words are inserted into inputs.
	Words []string
	// Read reads an input and returns an error for a wrong result, or nil. It can be called
	// concurrently.
	Read func(data []byte) error
	// Fix repairs checksums in a changed input, so that parsers read the data after them. It
	// applies to half of the inputs.
	Fix func(data []byte) []byte
	// Memory is the maximum amount of memory for an input of n bytes, in bytes: nil is 1 MiB and
	// 200 bytes for each byte.
	Memory func(n int) uint64
}

// Options select what Run does.
type Options struct {
	Seed  uint64
	Lanes int    // goroutines; 0 means one
	Dir   string // directory for inputs of failures
	// Least is the number of executions that each parser gets before others get more.
	Least int64
}

// Result is the result of a parser.
type Result struct {
	Parser     string
	Executions int64
	Time       time.Duration
	Faults     []string
}

const (
	// batch is the number of executions for which a lane stays with a parser.
	batch = 512
	// first is the size of the first batch, so that every parser gets inputs in a short run.
	first = 16
	// In one of measuredEvery batches, the memory of measured inputs is measured.
	measured      = 4
	measuredEvery = 16
	// hang is the time after which an execution counts as a hang.
	hang = time.Minute
	// maxFaults is the number of failures of a parser after which it gets no more inputs.
	maxFaults = 3
)

// runner is a run of all parsers.
type runner struct {
	opt     Options
	states  []*state
	measure sync.RWMutex // held for writing while memory is measured
	choose  sync.Mutex
}

// state is the state of a parser in a run.
type state struct {
	*Parser
	seeds      []*Seed
	words      [][]byte
	stream     uint64
	batches    uint64 // handed out
	executions int64  // handed out
	done       atomic.Int64
	spent      atomic.Int64 // nanoseconds

	mu     sync.Mutex
	faults []string
}

// lane is a goroutine that runs parsers.
type lane struct {
	*runner
	memory []byte // of inputs: writable pages before one that cannot be read
	count  atomic.Int64
	now    atomic.Pointer[state]
	input  []byte // of the current execution
}

// Run runs parsers until the context ends. Progress, if not nil, is called at intervals with the
// results so far.
func Run(ctx context.Context, list []*Parser, opt Options, progress func([]Result)) ([]Result, error) {
	r := &runner{opt: opt}
	for _, p := range list {
		s := &state{Parser: p}
		h := fnv.New64a()
		h.Write([]byte(p.Name))
		s.stream = h.Sum64()
		for _, data := range p.Seeds {
			if len(data) > maxInput {
				return nil, fmt.Errorf("%s: a seed of %d bytes", p.Name, len(data))
			}
			if err := p.Read(bytes.Clone(data)); err != nil {
				return nil, fmt.Errorf("%s: a seed of %d bytes: %w", p.Name, len(data), err)
			}
			s.seeds = append(s.seeds, NewSeed(data))
		}
		for _, w := range p.Words {
			s.words = append(s.words, []byte(w))
		}
		r.states = append(r.states, s)
	}
	var all sync.WaitGroup
	ended := make(chan struct{})
	var lanes []*lane
	for range max(1, opt.Lanes) {
		l := &lane{runner: r}
		var err error
		if l.memory, err = guardedMemory(); err != nil {
			return nil, err
		}
		lanes = append(lanes, l)
		all.Add(1)
		go func() {
			defer all.Done()
			l.run(ctx)
		}()
	}
	go func() { all.Wait(); close(ended) }()
	r.watch(lanes, ended, progress)
	return r.results(), nil
}

// watch waits until all lanes end, or one of them hangs.
func (r *runner) watch(lanes []*lane, ended chan struct{}, progress func([]Result)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := make([]int64, len(lanes))
	since := make([]time.Time, len(lanes))
	told := time.Now()
	for {
		select {
		case <-ended:
			return
		case now := <-tick.C:
			for i, l := range lanes {
				if n := l.count.Load(); n != last[i] || since[i].IsZero() {
					last[i], since[i] = n, now
				} else if now.Sub(since[i]) > hang && l.now.Load() != nil {
					s := l.now.Load()
					s.fault(r.opt.Dir, l.input, fmt.Errorf("it takes more than %s", hang))
					return // the goroutine cannot be ended
				}
			}
			const every = time.Minute
			if progress != nil && now.Sub(told) > every {
				told = now
				progress(r.results())
			}
		}
	}
}

func (r *runner) results() []Result {
	var list []Result
	for _, s := range r.states {
		s.mu.Lock()
		list = append(list, Result{s.Name, s.done.Load(), time.Duration(s.spent.Load()), append([]string(nil), s.faults...)})
		s.mu.Unlock()
	}
	return list
}

// pick returns the parser for the next batch: the one with the fewest executions until all have
// enough, then the one with the least time. It returns nil if no parser is left.
func (r *runner) pick() (*state, uint64) {
	r.choose.Lock()
	defer r.choose.Unlock()
	var best *state
	for _, s := range r.states {
		s.mu.Lock()
		bad := len(s.faults) >= maxFaults
		s.mu.Unlock()
		if bad {
			continue
		}
		switch {
		case best == nil:
			best = s
		case s.executions < r.opt.Least || best.executions < r.opt.Least:
			if s.executions < best.executions {
				best = s
			}
		case s.spent.Load() < best.spent.Load():
			best = s
		}
	}
	if best == nil {
		return nil, 0
	}
	n := best.batches
	best.batches++
	best.executions += batch
	return best, n
}

func (l *lane) run(ctx context.Context) {
	debug.SetPanicOnFault(true)
	m := mutator{data: make([]byte, 0, maxInput)}
	var stats runtime.MemStats
	for ctx.Err() == nil {
		s, n := l.pick()
		if s == nil {
			return
		}
		m.chance, m.seeds, m.words = newChance(l.opt.Seed+s.stream, n), s.seeds, s.words
		start := time.Now()
		l.now.Store(s)
		l.measure.RLock()
		size := batch
		if n == 0 {
			size = first
		}
		for range size {
			l.once(s, &m)
		}
		l.measure.RUnlock()
		s.done.Add(int64(size))
		if n%measuredEvery == 0 {
			l.measure.Lock()
			for range measured {
				l.weigh(s, &m, &stats)
			}
			l.measure.Unlock()
			s.done.Add(measured)
		}
		l.now.Store(nil)
		s.spent.Add(int64(time.Since(start)))
	}
}

// make returns the next input, at the end of the lane's memory.
func (l *lane) make(s *state, m *mutator) []byte {
	data := m.next()
	if s.Fix != nil && m.below(2) == 0 {
		if data = s.Fix(data); len(data) > maxInput {
			data = data[:maxInput]
		}
	}
	return l.place(data)
}

// place copies an input to the end of the lane's memory.
func (l *lane) place(data []byte) []byte {
	l.input = l.memory[len(l.memory)-len(data):]
	copy(l.input, data)
	l.count.Add(1)
	return l.input[:len(data):len(data)]
}

func (l *lane) once(s *state, m *mutator) {
	data := l.make(s, m)
	if err := try(s.Parser, data); err != nil {
		l.found(s, bytes.Clone(data), err)
	}
}

// weigh runs the parser on read-only input, and measures its memory. No other lane runs meanwhile.
func (l *lane) weigh(s *state, m *mutator, stats *runtime.MemStats) {
	data := l.make(s, m)
	protect(l.memory, syscall.PROT_READ)
	runtime.ReadMemStats(stats)
	before := stats.TotalAlloc
	err := try(s.Parser, data)
	runtime.ReadMemStats(stats)
	protect(l.memory, syscall.PROT_READ|syscall.PROT_WRITE)
	if taken := stats.TotalAlloc - before; err == nil && taken > s.most(len(data)) {
		err = fmt.Errorf("%d bytes of memory for an input of %d", taken, len(data))
		s.fault(l.opt.Dir, data, err)
		return
	}
	if err != nil {
		l.found(s, bytes.Clone(data), err)
	}
}

// most returns the maximum amount of memory for an input.
func (p *Parser) most(n int) uint64 {
	if p.Memory != nil {
		return p.Memory(n)
	}
	const fixed, each = 1 << 20, 200
	return fixed + each*uint64(n)
}

// try runs a parser and returns a panic as an error.
func try(p *Parser, data []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return p.Read(data)
}

// Once runs a parser on one input; reading beyond its end fails.
func Once(p *Parser, data []byte) error {
	if len(data) > maxInput {
		return try(p, data)
	}
	debug.SetPanicOnFault(true)
	memory, err := guardedMemory()
	if err != nil {
		return err
	}
	l := &lane{memory: memory}
	data = l.place(data)
	protect(memory, syscall.PROT_READ)
	return try(p, data)
}

// panicError is a panic of a parser.
type panicError struct {
	value any
	stack []byte
}

// Error returns the panic and its location.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, frames(e.stack)) }

// frames returns the functions of a stack from the panic to the parser.
func frames(stack []byte) []byte {
	if i := bytes.Index(stack, []byte("\npanic(")); i >= 0 {
		stack = stack[i+1:]
	}
	if i := bytes.Index(stack, []byte("/tests/internal/parsers.try(")); i >= 0 {
		stack = stack[:bytes.LastIndexByte(stack[:i], '\n')]
	}
	return stack
}

// found minimizes the input of a failure and records it.
func (l *lane) found(s *state, data []byte, err error) {
	data, err = Minimize(s.Parser, data, err, l.place)
	s.fault(l.opt.Dir, data, err)
}

// Minimize removes and clears parts of data, whose failure is err, and returns the smallest input
// that still fails. Place, if not nil, copies an input to the place where the parser reads it.
func Minimize(p *Parser, data []byte, err error, place func([]byte) []byte) ([]byte, error) {
	if place == nil {
		place = func(b []byte) []byte { return b }
	}
	fails := func(b []byte) bool {
		if e := try(p, place(b)); e != nil {
			err = e
			return true
		}
		return false
	}
	most := 20_000 // executions
	for step := max(1, len(data)/2); step > 0; step /= 2 {
		for at := 0; at+step <= len(data) && most > 0; most-- {
			if shorter := append(bytes.Clone(data[:at]), data[at+step:]...); fails(shorter) {
				data = shorter
			} else {
				at += step
			}
		}
	}
	for i := 0; i < len(data) && most > 0; i++ {
		for _, b := range []byte{0, ' '} {
			if data[i] == 0 || data[i] == b {
				break
			}
			most--
			if simpler := bytes.Clone(data); true {
				simpler[i] = b
				if fails(simpler) {
					data = simpler
				}
			}
		}
	}
	fails(data) // err is that of the last input
	return data, err
}

// fault records a failure and writes its input to a file.
func (s *state) fault(dir string, data []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) >= maxFaults {
		return
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%d", s.Name, len(s.faults)))
	text := fmt.Sprintf("%s: %v\n  again: go run ./tests/campaign --only=parsers --parser=%s --input=%s", s.Name, err, s.Name, name)
	if werr := os.WriteFile(name, data, 0o666); werr != nil {
		text += fmt.Sprintf(" (%v): input %q", werr, data)
	}
	s.faults = append(s.faults, text)
}

// guardedMemory returns writable memory for an input. Reading the page after it fails.
func guardedMemory() ([]byte, error) {
	page := os.Getpagesize()
	all, err := syscall.Mmap(-1, 0, maxInput+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err == nil {
		err = syscall.Mprotect(all[maxInput:], syscall.PROT_NONE)
	}
	if err != nil {
		return nil, fmt.Errorf("memory for inputs: %w", err)
	}
	return all[:maxInput:maxInput], nil
}

func protect(memory []byte, access int) {
	if err := syscall.Mprotect(memory, access); err != nil {
		panic(err)
	}
}
