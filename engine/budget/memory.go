package budget

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
)

// memory is the bytes of a Budget.
type memory struct {
	mu      sync.Mutex
	total   int64
	free    int64      // negative while an account has more than there is
	over    *Account   // whose subtree may take more than is free; nil for none
	waiting []*request // in the order of asking
}

// request is memory that somebody waits for.
type request struct {
	account *Account
	n       int64
	scoped  bool
	err     error         // why it is refused; valid when ready is closed
	ready   chan struct{} // closed when granted or refused
}

// LimitError reports an operation that needs more memory at a time than its budget has.
type LimitError struct {
	Need  int64  // bytes, with what the operation holds already
	Limit int64  // bytes of the budget
	Raise string // how the limit is raised, see Budget.Raise; may be empty
}

// Error returns the message.
func (e *LimitError) Error() string {
	message := fmt.Sprintf("this takes %d bytes of memory at a time, the limit is %d bytes", e.Need, e.Limit)
	if e.Raise != "" {
		message += ": " + e.Raise
	}
	return message
}

// Account is the memory that one operation holds, or a part of it: WithBytes opens an
// account for what runs inside it. What an operation holds at a time never exceeds the
// budget; if it must, the operation fails with a [LimitError].
//
// An operation waits for others only while it holds nothing: two that hold memory and wait
// for more could wait for each other forever. One that holds memory and finds too little
// left takes what it needs all the same; others that hold memory then wait until the
// budget is in balance again. So all operations together hold at most twice the budget,
// and one alone hardly more than that. An operation should first reserve what it knows it
// needs. Of the calls of WithBytes that run in parallel inside it, all but one wait until
// there is memory.
type Account struct {
	budget *Budget
	parent *Account // nil for an operation
	unit   bool     // whether it is that of a unit of work beside others
	inside int64    // bytes of the call of WithBytes that the account is for

	// These are guarded by the budget's memory.mu.
	held   int64 // bytes, with all accounts inside
	fixed  int64 // bytes by Reserve
	scoped int   // running calls of WithBytes, with those of its units
	ended  bool  // what it held is the parent's
}

// Account returns the account of ctx, or a new one.
func (b *Budget) Account(ctx context.Context) *Account {
	b = b.orDefault()
	if a := b.held(ctx).account; a != nil {
		return a
	}
	return &Account{budget: b}
}

// Context returns ctx if it has an account of the same budget, and else a context whose
// reservations go to a.
func (a *Account) Context(ctx context.Context) context.Context {
	h := a.budget.held(ctx)
	if h.account != nil {
		return ctx
	}
	h.account = a
	return h.context(ctx)
}

// base returns what stays held while a waits, and will: the memory of what a is inside of. It
// requires memory.mu.
func (a *Account) base() int64 {
	sum := int64(0)
	for ; a != nil; a = a.parent {
		sum += a.fixed + a.inside
	}
	return sum
}

// operation returns the account of the whole operation.
func (a *Account) operation() *Account {
	for a.parent != nil {
		a = a.parent
	}
	return a
}

// within reports whether a is outer, or inside it.
func (a *Account) within(outer *Account) bool {
	for ; a != nil; a = a.parent {
		if a == outer {
			return true
		}
	}
	return false
}

// scope returns the account that counts the calls of WithBytes of a: units count together.
func (a *Account) scope() *Account {
	for a.unit && a.parent != nil {
		a = a.parent
	}
	return a
}

// add adds n bytes to what a holds. It requires memory.mu.
func (a *Account) add(n int64, scoped bool) {
	for a.ended {
		a = a.parent
	}
	switch {
	case !scoped:
		a.fixed += n
	case n > 0:
		a.scope().scoped++
	default:
		a.scope().scoped--
	}
	for ; a != nil; a = a.parent {
		a.held += n
	}
}

// end moves what is still reserved to the parent. It requires memory.mu.
func (a *Account) end() {
	a.ended = true
	a.parent.fixed += a.fixed
	a.fixed, a.inside = 0, 0
	if m := &a.budget.memory; m.over == a {
		m.over = a.parent
	}
}

// unit returns a context with an account for a unit of work beside others, if ctx has an
// account, and what ends the account.
func (b *Budget) unit(ctx context.Context) (context.Context, func()) {
	h := b.held(ctx)
	if h.account == nil {
		return ctx, func() {}
	}
	a := &Account{budget: b, parent: h.account, unit: true}
	h.account = a
	return h.context(ctx), func() {
		b.memory.mu.Lock()
		defer b.memory.mu.Unlock()
		a.end()
	}
}

// Reservation is memory of a Budget that is held until Release.
type Reservation struct {
	account *Account
	mu      sync.Mutex
	n       int64
}

// Reserve waits until n bytes of the budget are free and returns them as held by the account
// of ctx. See [Account] for operations that hold memory already. The error is a *LimitError
// or the cause of ctx.
func (b *Budget) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	return b.Account(ctx).Reserve(ctx, n)
}

// Reserve is [Budget.Reserve] for an account that ctx is inside of: the memory is not that of
// the unit of work alone.
func (a *Account) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	if n = max(n, 0); n > 0 {
		if err := a.budget.take(ctx, a, n, false); err != nil {
			return nil, err
		}
	}
	return &Reservation{account: a, n: n}, nil
}

// Release gives the memory back. Releasing twice, or a nil Reservation, does
// nothing.
func (r *Reservation) Release() {
	if r != nil {
		r.GiveBack(math.MaxInt64)
	}
}

// GiveBack gives up to n bytes of the memory back and returns how many.
func (r *Reservation) GiveBack(n int64) int64 {
	r.mu.Lock()
	n = min(n, r.n)
	r.n -= n
	r.mu.Unlock()
	r.account.budget.release(r.account, n, false)
	return n
}

// WithBytes runs fn when n bytes of the budget are free and keeps them until it
// returns. See [Account] for contexts whose operation holds memory already. It returns
// a *LimitError, the cause of ctx, or what fn returns.
func (b *Budget) WithBytes(ctx context.Context, n int64, fn func(context.Context) error) error {
	if n <= 0 {
		return fn(ctx)
	}
	b = b.orDefault()
	a := b.Account(ctx)
	if err := b.take(ctx, a, n, true); err != nil {
		return err
	}
	inner := &Account{budget: b, parent: a, inside: n}
	defer func() {
		b.memory.mu.Lock()
		inner.end()
		b.memory.mu.Unlock()
		b.release(a, n, true)
	}()
	h := b.held(ctx)
	h.account = inner
	return fn(h.context(ctx))
}

// take acquires n bytes, at least one.
func (b *Budget) take(ctx context.Context, a *Account, n int64, scoped bool) error {
	r := &request{account: a, n: n, scoped: scoped, ready: make(chan struct{})}
	if b.ask(r) {
		return r.err
	}
	err := b.withoutCore(ctx, b.held(ctx).core, func() error {
		select {
		case <-r.ready:
			return r.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		b.withdraw(r) // it may have been granted meanwhile
	}
	return err
}

// ask decides about r now, if it can, or puts it after the others that wait.
func (b *Budget) ask(r *request) bool {
	m := &b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !slices.ContainsFunc(m.waiting, func(w *request) bool { return w.account.operation().held == 0 })
	if !b.decide(r, first) {
		m.waiting = append(m.waiting, r)
		return false
	}
	return true
}

// decide gives r its memory if it may have it, or refuses it if it never can, and reports
// whether it did: first reports that no operation that holds nothing asked before. It
// requires memory.mu.
func (b *Budget) decide(r *request, first bool) bool {
	m := &b.memory
	a := r.account
	switch need := a.base() + r.n; {
	case r.n > m.total || need > m.total:
		r.err = &LimitError{Need: need, Limit: m.total, Raise: b.Raise}
		close(r.ready)
		return true
	case a.operation().held == 0:
		if !first || r.n > m.free {
			return false
		}
	case r.n <= m.free:
	case r.scoped && a.scope().scoped > 0:
		return false
	case m.over != nil && !a.within(m.over):
		return false
	case m.over == nil:
		m.over = a
	}
	m.free -= r.n
	a.add(r.n, r.scoped)
	close(r.ready)
	return true
}

// withdraw ends the wait of r; memory that it got meanwhile goes back.
func (b *Budget) withdraw(r *request) {
	m := &b.memory
	m.mu.Lock()
	waited := slices.Contains(m.waiting, r)
	m.waiting = slices.DeleteFunc(m.waiting, func(w *request) bool { return w == r })
	if waited {
		b.serve() // those after r may go on
	}
	granted := !waited && r.err == nil
	m.mu.Unlock()
	if granted {
		b.release(r.account, r.n, r.scoped)
	}
}

// release gives n bytes back.
func (b *Budget) release(a *Account, n int64, scoped bool) {
	if n == 0 {
		return
	}
	m := &b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free += n
	a.add(-n, scoped)
	if m.free >= 0 {
		m.over = nil
	}
	b.serve()
}

// serve decides about all that can be decided. It requires memory.mu.
func (b *Budget) serve() {
	m := &b.memory
	first := true
	m.waiting = slices.DeleteFunc(m.waiting, func(w *request) bool {
		none := w.account.operation().held == 0
		if b.decide(w, first) {
			return true
		}
		first = first && !none
		return false
	})
}
