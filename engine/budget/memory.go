package budget

import (
	"context"
	"slices"
	"sync"
)

// memory is the bytes of a Budget.
type memory struct {
	mu      sync.Mutex
	total   int64
	free    int64      // negative when operations had to take more than there is
	waiting []*request // in the order of asking
}

// request is memory that somebody waits for.
type request struct {
	account *Account
	n       int64
	scoped  bool
	granted bool
	ready   chan struct{} // closed when granted
}

// Account is the memory that one operation holds. An operation waits for other
// operations only while it holds nothing: two that hold memory and wait for more
// could wait for each other forever. So an operation should first reserve what
// it knows it needs. What it reserves later it gets at once, even if the budget
// is then exceeded; but of the calls of WithBytes that run in parallel inside
// it, all but one wait until there is memory.
type Account struct {
	budget *Budget
	held   int64 // bytes; guarded by the budget's memory.mu, as is scoped
	scoped int   // running calls of WithBytes
}

// Account returns the account of ctx, or a new one.
func (b *Budget) Account(ctx context.Context) *Account {
	b = b.orDefault()
	if a := b.held(ctx).account; a != nil {
		return a
	}
	return &Account{budget: b}
}

// Context returns a context whose reservations go to the account.
func (a *Account) Context(ctx context.Context) context.Context {
	h := a.budget.held(ctx)
	h.account = a
	return h.context(ctx)
}

// Reservation is memory of a Budget that is held until Release.
type Reservation struct {
	account *Account
	n       int64
	once    sync.Once
}

// Reserve waits until n bytes of the budget are free and returns them as held.
// More than the whole budget waits for all of it. See [Account] for contexts
// whose operation holds memory already. The error is the cause of ctx.
func (b *Budget) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	b = b.orDefault()
	a := b.Account(ctx)
	n, err := b.take(ctx, a, n, false)
	if err != nil {
		return nil, err
	}
	return &Reservation{account: a, n: n}, nil
}

// Release gives the memory back. Releasing twice, or a nil Reservation, does
// nothing.
func (r *Reservation) Release() {
	if r != nil {
		r.once.Do(func() { r.account.budget.memory.release(r.account, r.n, false) })
	}
}

// WithBytes runs fn when n bytes of the budget are free and keeps them until it
// returns. More than the whole budget waits for all of it and then runs alone.
// See [Account] for contexts whose operation holds memory already.
func (b *Budget) WithBytes(ctx context.Context, n int64, fn func(context.Context) error) error {
	b = b.orDefault()
	a := b.Account(ctx)
	n, err := b.take(ctx, a, n, true)
	if err != nil {
		return err
	}
	if n == 0 {
		return fn(ctx)
	}
	defer b.memory.release(a, n, true)
	// What fn reserves must not wait for fn.
	inner := &Account{budget: b, held: n}
	return fn(inner.Context(ctx))
}

// take acquires n bytes, of which it returns how many there can be.
func (b *Budget) take(ctx context.Context, a *Account, n int64, scoped bool) (int64, error) {
	m := &b.memory
	n = min(n, m.total)
	if n <= 0 {
		return 0, nil
	}
	r := &request{account: a, n: n, scoped: scoped, ready: make(chan struct{})}
	if m.ask(r) {
		return n, nil
	}
	return n, b.withoutCore(ctx, b.held(ctx).core, func() error {
		select {
		case <-r.ready:
			return nil
		case <-ctx.Done():
			m.withdraw(r)
			return context.Cause(ctx)
		}
	})
}

// ask grants r or puts it behind the others that wait.
func (m *memory) ask(r *request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !slices.ContainsFunc(m.waiting, func(w *request) bool { return w.account.held == 0 })
	if !m.grant(r, first) {
		m.waiting = append(m.waiting, r)
	}
	return r.granted
}

// grant gives r its memory if it may have it: first tells that no operation that
// holds nothing asked before.
func (m *memory) grant(r *request, first bool) bool {
	a := r.account
	switch {
	case a.held == 0 && !(first && r.n <= m.free):
		return false
	case a.held > 0 && r.n > m.free && r.scoped && a.scoped > 0:
		return false
	}
	m.free -= r.n
	a.held += r.n
	if r.scoped {
		a.scoped++
	}
	r.granted = true
	close(r.ready)
	return true
}

// withdraw ends the wait of r; memory that it got meanwhile goes back.
func (m *memory) withdraw(r *request) {
	m.mu.Lock()
	granted := r.granted
	m.waiting = slices.DeleteFunc(m.waiting, func(w *request) bool { return w == r })
	if !granted {
		m.serve() // those behind r may go on
	}
	m.mu.Unlock()
	if granted {
		m.release(r.account, r.n, r.scoped)
	}
}

// release gives n bytes back.
func (m *memory) release(a *Account, n int64, scoped bool) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free += n
	a.held -= n
	if scoped {
		a.scoped--
	}
	m.serve()
}

// serve grants what can be granted. It needs mu.
func (m *memory) serve() {
	first := true
	m.waiting = slices.DeleteFunc(m.waiting, func(w *request) bool {
		none := w.account.held == 0
		if m.grant(w, first) {
			return true
		}
		first = first && !none
		return false
	})
}
