package files

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Budget is what all requests of a process share: a number of cores, and a
// number of bytes of memory for what cannot be mapped or streamed.
//
// Cores are taken for one unit of work at a time and go round in the order of
// asking, so a small request is not stuck behind a big one.
type Budget struct {
	cores, bytes *semaphore.Weighted
	ncores       int
	nbytes       int64
}

// NewBudget returns a budget of the given size; at least one core and one byte.
func NewBudget(cores int, bytes int64) *Budget {
	cores, bytes = max(cores, 1), max(bytes, 1)
	return &Budget{
		cores:  semaphore.NewWeighted(int64(cores)),
		bytes:  semaphore.NewWeighted(bytes),
		ncores: cores,
		nbytes: bytes,
	}
}

// Cores returns the number of cores of the budget.
func (b *Budget) Cores() int { return b.ncores }

// held is what the unit of work behind a context holds of its budget. Without
// it, a unit that divides its own work would wait for the core it sits on.
type held struct {
	budget *Budget
	core   *slot // nil for none
	bytes  bool
}

// slot is a core that is held; lost when it had to be given up for good.
type slot struct{ lost atomic.Bool }

type heldKey struct{}

func (b *Budget) held(ctx context.Context) held {
	if h, ok := ctx.Value(heldKey{}).(held); ok && h.budget == b {
		if h.core != nil && h.core.lost.Load() {
			h.core = nil
		}
		return h
	}
	return held{budget: b}
}

// withCore runs fn with a core of the budget, waiting for one if need be.
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
		if !h.core.lost.Load() {
			b.cores.Release(1)
		}
	}()
	fn(context.WithValue(ctx, heldKey{}, h))
	return nil
}

// WithBytes runs fn when n bytes of the budget are free and keeps them until it
// returns. More than the whole budget waits for all of it and then runs alone.
// Inside fn's context it does not wait again, so reserve what is needed at once.
func (b *Budget) WithBytes(ctx context.Context, n int64, fn func(context.Context) error) error {
	h := b.held(ctx)
	n = min(n, b.nbytes)
	if h.bytes || n <= 0 {
		return fn(ctx)
	}
	if !b.bytes.TryAcquire(n) {
		if err := b.waitBytes(ctx, h.core, n); err != nil {
			return err
		}
	}
	defer b.bytes.Release(n)
	h.bytes = true
	return fn(context.WithValue(ctx, heldKey{}, h))
}

// waitBytes acquires n bytes. Whoever holds them may need a core to finish, so
// the core held meanwhile is given back.
func (b *Budget) waitBytes(ctx context.Context, core *slot, n int64) error {
	if core != nil {
		b.cores.Release(1)
	}
	err := b.bytes.Acquire(ctx, n)
	if core != nil && err == nil {
		if err = b.cores.Acquire(ctx, 1); err != nil {
			b.bytes.Release(n)
		}
	}
	if err != nil {
		if core != nil {
			core.lost.Store(true)
		}
		return context.Cause(ctx)
	}
	return nil
}

// Each runs fn for 0 … n-1, in parallel as far as cores of the budget are free,
// and waits for all of them. It returns the error of the lowest index that
// failed, whatever the timing; higher ones are cancelled or not started. When
// ctx is done first, it returns its cause as soon as the units that run have
// noticed. A panic in fn becomes an error (see [Contain]).
func (b *Budget) Each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	return Ordered(ctx, b, n, n,
		func(ctx context.Context, i int) (struct{}, error) { return struct{}{}, fn(ctx, i) },
		func(int, struct{}) error { return nil })
}

// Ordered produces n pieces in parallel like [Budget.Each] and hands them to
// consume one by one in order, on the calling goroutine. A piece is started only
// when less than ahead pieces before it wait to be consumed: that bounds the
// memory. It returns the error of the lowest index; consume has then seen
// every piece before that one and none after.
func Ordered[T any](ctx context.Context, b *Budget, n, ahead int,
	produce func(ctx context.Context, i int) (T, error), consume func(i int, piece T) error) error {
	p := &pipeline[T]{budget: b, n: n, limit: n, ahead: max(ahead, 1), produce: produce, ready: make(map[int]result[T])}
	p.cond.L = &p.mu
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, p.wake)()

	// A goroutine with a core of its own works too: there may be no other core.
	helpers := min(n, b.ncores, p.ahead)
	works := b.held(ctx).core != nil
	if works || helpers == 1 {
		helpers, works = helpers-1, true
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range helpers {
		wg.Go(func() { p.help(ctx) })
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
	next  int // the first piece nobody took
	done  int // pieces consumed
	limit int // no piece from here on is wanted: n, or the first that failed
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

// open tells whether a piece can be taken now.
func (p *pipeline[T]) open() bool { return p.next < p.limit && p.next < p.done+p.ahead }

// help produces pieces until none is left.
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

// take produces the next piece if there is one.
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
	r.err = Contain(func() (err error) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
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

// await returns piece i, producing pieces meanwhile when works is set.
func (p *pipeline[T]) await(ctx context.Context, i int, works bool) (T, error) {
	for {
		p.mu.Lock()
		r, ok := p.ready[i]
		for !ok && ctx.Err() == nil && !(works && p.open()) {
			p.cond.Wait()
			r, ok = p.ready[i]
		}
		delete(p.ready, i)
		p.mu.Unlock()
		if ok {
			return r.piece, r.err
		}
		err := context.Cause(ctx)
		if err == nil {
			err = p.budget.withCore(ctx, p.take)
		}
		if err != nil {
			var none T
			return none, err
		}
	}
}
