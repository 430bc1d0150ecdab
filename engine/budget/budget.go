// Package budget limits the cores and the memory that operations share: the requests of a worker, the
// entries of a bundle, the members of an archive. A *Budget is given to the operations in their
// options; nil stands for all cores and DefaultMemory.
package budget

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Budget limits the cores and the memory that all requests of a process share.
// The memory is for data that cannot be mapped or streamed. A nil Budget stands
// for the default of the process: as many cores as Go uses, and DefaultMemory.
//
// Cores are assigned for one unit of work at a time, in the order of the
// requests, so that a small request does not wait for the end of a large one.
type Budget struct {
	// Raise describes how a user raises the memory limit. It is the end of the
	// message of a LimitError. Set it before the budget is used.
	Raise  string
	cores  *semaphore.Weighted
	ncores int
	memory memory
}

// DefaultMemory is the memory of a nil Budget, in bytes.
const DefaultMemory = 2 << 30

var (
	makeDefault   sync.Once
	defaultBudget *Budget
)

// New returns a budget of the given size, with at least one core and one byte. An
// operation that requires more memory at a time fails with a [LimitError].
func New(cores int, bytes int64) *Budget {
	cores, bytes = max(cores, 1), max(bytes, 1)
	return &Budget{
		cores:  semaphore.NewWeighted(int64(cores)),
		ncores: cores,
		memory: memory{total: bytes, free: bytes},
	}
}

// known is the memory of a budget of [NewLazy] before it calls its function, in bytes.
const known = 256 << 10

// NewLazy returns a budget whose memory in bytes is the result of a function. The budget calls it once,
// when requests first hold more than 256 KiB: small calls do not need the limit of the machine.
func NewLazy(cores int, bytes func() int64) *Budget {
	b := New(cores, known)
	b.memory.ask = bytes
	return b
}

// orDefault returns b, or the budget that nil stands for.
func (b *Budget) orDefault() *Budget {
	if b == nil {
		makeDefault.Do(func() { defaultBudget = New(runtime.GOMAXPROCS(0), DefaultMemory) })
		return defaultBudget
	}
	return b
}

// Memory returns the memory of the budget, in bytes.
func (b *Budget) Memory() int64 {
	m := &b.orDefault().memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.determine()
	return m.total
}

// Cores returns the number of cores of the budget.
func (b *Budget) Cores() int { return b.orDefault().ncores }

// held is the share of the budget that the unit of work of a context holds.
type held struct {
	budget  *Budget
	core    *slot    // nil for none
	account *Account // nil for none
	alone   bool     // see Sequential
}

// slot is a core that one goroutine holds.
type slot struct{ state atomic.Int32 }

// The states of a slot.
const (
	slotHeld int32 = iota
	slotAway       // released while its goroutine waits for memory
	slotLost       // released permanently
)

type heldKey struct{}

func (b *Budget) held(ctx context.Context) held {
	if h, ok := ctx.Value(heldKey{}).(held); ok && (h.budget == b || h.budget == nil) {
		h.budget = b
		if h.core != nil && h.core.state.Load() != slotHeld {
			h.core = nil
		}
		return h
	}
	return held{budget: b}
}

func (h held) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, heldKey{}, h)
}

// Sequential returns a context in which units of work run one at a time, as on a
// single core. It is for work that would take too much memory in parallel.
func Sequential(ctx context.Context) context.Context {
	h, _ := ctx.Value(heldKey{}).(held)
	h.alone = true
	return context.WithValue(ctx, heldKey{}, h)
}

// withCore runs fn with a core of the budget, and waits for one if necessary. A
// unit that divides its own work does not wait for the core that it holds.
func (b *Budget) withCore(ctx context.Context, fn func(context.Context)) error {
	h := b.held(ctx)
	if h.core != nil {
		fn(ctx)
		return nil
	}
	if b.cores.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	h.core = new(slot)
	defer func() {
		if h.core.state.Load() == slotHeld {
			b.cores.Release(1)
		}
	}()
	fn(h.context(ctx))
	return nil
}

// withoutCore runs fn while the core of the context, if any, is free for other
// goroutines. fn may wait for a goroutine that requires a core.
func (b *Budget) withoutCore(ctx context.Context, core *slot, fn func() error) error {
	if core == nil || !core.state.CompareAndSwap(slotHeld, slotAway) {
		return fn()
	}
	b.cores.Release(1)
	err := fn()
	if b.cores.Acquire(ctx, 1) != nil {
		core.state.Store(slotLost)
		if err == nil {
			err = context.Cause(ctx)
		}
		return err
	}
	core.state.Store(slotHeld)
	return err
}

// Each runs fn for 0 … n-1, in parallel as far as cores of the budget are free,
// and waits for all of them. It returns the error of the lowest index that
// failed, independent of timing; higher indices are cancelled or not started.
// If ctx is done first, it returns the cause of ctx as soon as the running
// units have returned. A panic in fn becomes an error with the message
// "internal error: " and its value.
func (b *Budget) Each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	return Ordered(ctx, b, n, n,
		func(ctx context.Context, i int) (struct{}, error) { return struct{}{}, fn(ctx, i) },
		func(int, struct{}) error { return nil })
}

// Ordered produces n pieces in parallel like [Budget.Each] and passes them to
// consume one by one in order, on the calling goroutine. It starts a piece only
// if fewer than ahead earlier pieces wait to be consumed, which limits the
// memory. It returns the error of the lowest index; consume has then been called
// for every earlier piece and no later one.
func Ordered[T any](ctx context.Context, b *Budget, n, ahead int,
	produce func(ctx context.Context, i int) (T, error), consume func(i int, piece T) error) error {
	b = b.orDefault()
	p := &pipeline[T]{budget: b, n: n, limit: n, ahead: max(ahead, 1), produce: produce, ready: make(map[int]result[T])}
	p.cond.L = &p.mu
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, p.wake) // unguarded: it wakes goroutines

	// If this goroutine holds a core, it also produces pieces, since there may be
	// no other core. Each helper requires a core.
	helpers := min(n, b.ncores, p.ahead)
	h := b.held(ctx)
	if h.alone {
		helpers = 1
	}
	works := h.core != nil
	h.core = nil
	helping := h.context(ctx)
	if works || helpers == 1 {
		helpers, works = helpers-1, true
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		stop() // or else cancel starts a goroutine for wake
		cancel()
		p.wake()
	}()
	for range helpers {
		wg.Go(func() { p.help(helping) }) // unguarded: take contains what it produces
	}
	for i := range n {
		piece, err := p.await(ctx, i, works)
		if err == nil {
			err = consume(i, piece)
		}
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.done = i + 1
		p.cond.Broadcast()
		p.mu.Unlock()
	}
	return nil
}

// pipeline is one call of Ordered.
type pipeline[T any] struct {
	budget  *Budget
	n       int
	ahead   int
	produce func(context.Context, int) (T, error)

	mu    sync.Mutex
	cond  sync.Cond
	next  int // the first piece that was not taken
	done  int // pieces consumed
	limit int // end of the required pieces: n, or the first that failed
	ready map[int]result[T]
}

type result[T any] struct {
	piece T
	err   error
}

func (p *pipeline[T]) wake() {
	p.mu.Lock()
	p.cond.Broadcast()
	p.mu.Unlock()
}

// open reports whether a piece can be taken now.
func (p *pipeline[T]) open() bool { return p.next < p.limit && p.next < p.done+p.ahead }

// help produces pieces until none remain.
func (p *pipeline[T]) help(ctx context.Context) {
	for {
		p.mu.Lock()
		for !p.open() && p.next < p.limit && ctx.Err() == nil {
			p.cond.Wait()
		}
		more := p.next < p.limit && ctx.Err() == nil
		p.mu.Unlock()
		if !more || p.budget.withCore(ctx, p.take) != nil {
			return
		}
	}
}

// take produces the next piece, if any.
func (p *pipeline[T]) take(ctx context.Context) {
	p.mu.Lock()
	if !p.open() {
		p.mu.Unlock()
		return
	}
	i := p.next
	p.next++
	p.mu.Unlock()

	var r result[T]
	r.err = guard.Contain(func() (err error) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ctx, end := p.budget.unit(ctx)
		defer end()
		r.piece, err = p.produce(ctx, i)
		return err
	})

	p.mu.Lock()
	p.ready[i] = r
	if r.err != nil {
		p.limit = min(p.limit, i)
	}
	p.cond.Broadcast()
	p.mu.Unlock()
}

// await returns piece i. If works is set, it produces other pieces meanwhile.
// While it only waits, the core of ctx is free for other goroutines.
func (p *pipeline[T]) await(ctx context.Context, i int, works bool) (T, error) {
	var none T
	for {
		p.mu.Lock()
		r, ready := p.ready[i]
		delete(p.ready, i)
		open := p.open()
		p.mu.Unlock()
		var err error
		switch {
		case ready:
			return r.piece, r.err
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case works && open:
			err = p.budget.withCore(ctx, p.take)
		default:
			err = p.budget.withoutCore(ctx, p.budget.held(ctx).core, func() error { return p.wait(ctx, i, works) })
		}
		if err != nil {
			return none, err
		}
	}
}

// wait waits until piece i is ready or, if works is set, a piece can be taken.
func (p *pipeline[T]) wait(ctx context.Context, i int, works bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if _, ok := p.ready[i]; ok || works && p.open() {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.cond.Wait()
	}
}
