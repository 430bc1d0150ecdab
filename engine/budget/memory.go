package budget

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
)

// memory manages the bytes of a Budget.
type memory struct {
	mu      sync.Mutex
	total   int64
	free    int64      // negative while an account holds more than the budget
	over    *Account   // the account that may take more than is free, with those inside it; nil for none
	waiting []*request // in the order of the requests

	ask func() int64 // returns the total; nil if it is known
}

// determine sets the total of a budget of NewLazy. It requires mu.
func (m *memory) determine() {
	if m.ask == nil {
		return
	}
	more := max(m.ask(), 1) - m.total
	m.ask = nil
	m.total += more
	m.free += more
}

// request is a pending request for memory.
type request struct {
	account *Account // to which the memory belongs
	by      *Account // of the unit of work that waits: account, or one inside it or of another operation
	n       int64
	scoped  bool
	err     error         // reason of the refusal; valid after ready is closed
	ready   chan struct{} // closed when granted or rejected
}

// LimitError reports an operation that requires more memory at a time than its
// budget has.
type LimitError struct {
	Need  int64  // bytes, including those that the operation already holds
	Limit int64  // bytes of the budget
	Raise string // how to raise the limit, see Budget.Raise; may be empty
}

// Error returns the message.
func (e *LimitError) Error() string {
	message := fmt.Sprintf("needs %d bytes of memory at a time, the limit is %d bytes", e.Need, e.Limit)
	if e.Raise != "" {
		message += "; " + e.Raise
	}
	return message
}

// Account is the memory that one operation holds, or a part of it: WithBytes opens an
// account for the function that it runs. The memory that an operation holds at a time
// never exceeds the budget; an operation that requires more fails with a [LimitError].
//
// An operation waits for other operations only while it holds no memory, because two that
// hold memory and wait for more could deadlock. An operation that holds memory takes what
// it requires even if too little is free; other operations that hold memory, and its own
// parallel units of work, then wait until the budget is balanced again or the unit of work
// has ended. Therefore operations never deadlock, also if their units keep reservations, and
// all of them together hold at most twice the budget. An operation should first
// reserve the memory that it is certain to require. If calls of WithBytes run in parallel
// inside it, all but one wait until memory is free.
//
// A function that WithBytes or Each calls must reserve with its own context, not with that
// of its caller, which waits for it.
type Account struct {
	budget *Budget
	parent *Account // nil for an operation
	unit   bool     // whether it belongs to one of several parallel units of work
	inside int64    // bytes of the WithBytes call of this account

	// The fields below are guarded by the budget's memory.mu.
	held   int64 // bytes, including all inner accounts
	fixed  int64 // bytes by Reserve
	scoped int   // running calls of WithBytes, including those of its units and their units
	ended  bool  // its memory now belongs to the parent
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

// base returns the memory of the accounts that contain a, which stays held while a waits. It
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

// live returns the account that has the memory of a: a, or if it has ended, the first account around it
// that has not. It requires memory.mu.
func (a *Account) live() *Account {
	for a.ended {
		a = a.parent
	}
	return a
}

// count adds n to the running calls of WithBytes. Units share a count with the account that contains
// them. It requires memory.mu.
func (a *Account) count(n int) {
	a.scoped += n
	for a.unit {
		a = a.parent
		a.scoped += n
	}
}

// scope returns the account whose count has the calls of WithBytes that run beside one of a, of those in
// m.over if a is inside it: calls outside may have to wait for m.over. It requires mu.
func (m *memory) scope(a *Account) *Account {
	for a.unit && a != m.over {
		a = a.parent
	}
	return a
}

// add adds n bytes to the memory of a. It requires memory.mu.
func (a *Account) add(n int64, scoped bool) {
	a = a.live()
	if !scoped {
		a.fixed += n
	}
	for ; a != nil; a = a.parent {
		a.held += n
	}
}

// end moves what is still reserved to the parent. Requests of accounts around a may then be decided:
// those that waited for a, and those that can no longer be granted. It requires memory.mu.
func (a *Account) end() {
	a.ended = true
	a.parent.live().fixed += a.fixed
	a.fixed, a.inside = 0, 0
	if m := &a.budget.memory; m.over == a {
		m.over = a.parent.live()
	}
	a.budget.serve()
}

// unit returns a context with an account for one of several parallel units of work, if
// ctx has an account, and a function that ends the account.
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

// Reserve waits until n bytes of the budget are free and reserves them for the account of
// ctx. See [Account] for operations that hold memory already. The error is a *LimitError or
// the cause of ctx.
func (b *Budget) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	return b.Account(ctx).Reserve(ctx, n)
}

// Reserve is [Budget.Reserve] for an account other than that of ctx, which usually contains
// it: the memory does not belong to the unit of work only.
func (a *Account) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	if n = max(n, 0); n > 0 {
		by := a
		if h := a.budget.held(ctx); h.account != nil {
			by = h.account
		}
		if err := a.budget.take(ctx, &request{account: a, by: by, n: n}); err != nil {
			return nil, err
		}
	}
	return &Reservation{account: a, n: n}, nil
}

// Release returns the memory to the budget. Releasing twice, or releasing a nil
// Reservation, has no effect.
func (r *Reservation) Release() {
	if r != nil {
		r.GiveBack(math.MaxInt64)
	}
}

// GiveBack returns up to n bytes of the memory to the budget. Its result is the
// number of bytes returned.
func (r *Reservation) GiveBack(n int64) int64 {
	r.mu.Lock()
	n = min(n, r.n)
	r.n -= n
	r.mu.Unlock()
	if n > 0 {
		b := r.account.budget
		b.memory.mu.Lock()
		defer b.memory.mu.Unlock()
		b.giveBack(r.account, n, false)
		b.serve()
	}
	return n
}

// WithBytes waits until n bytes of the budget are free and holds them while it runs
// fn. See [Account] for contexts whose operation holds memory already. It returns a
// *LimitError, the cause of ctx, or the error of fn.
func (b *Budget) WithBytes(ctx context.Context, n int64, fn func(context.Context) error) error {
	if n <= 0 {
		return fn(ctx)
	}
	b = b.orDefault()
	a := b.Account(ctx)
	r := &request{account: a, by: a, n: n, scoped: true}
	if err := b.take(ctx, r); err != nil {
		return err
	}
	a = r.account
	inner := &Account{budget: b, parent: a, inside: n}
	defer func() {
		b.memory.mu.Lock()
		defer b.memory.mu.Unlock()
		b.giveBack(a, n, true)
		inner.end()
	}()
	h := b.held(ctx)
	h.account = inner
	return fn(h.context(ctx))
}

// take acquires the memory of r, at least one byte.
func (b *Budget) take(ctx context.Context, r *request) error {
	r.ready = make(chan struct{})
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

// ask decides r immediately if possible, or appends it to the waiting requests.
func (b *Budget) ask(r *request) bool {
	m := &b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.n > m.free {
		m.determine()
	}
	first := !slices.ContainsFunc(m.waiting, func(w *request) bool { return !w.holds() })
	if !b.decide(r, first) {
		m.waiting = append(m.waiting, r)
		return false
	}
	return true
}

// holds reports whether an operation of r holds memory. It requires memory.mu.
func (r *request) holds() bool {
	return r.account.operation().held > 0 || r.by.operation().held > 0
}

// need returns the memory that the unit of work holds at a time with that of r, in bytes. It requires
// memory.mu.
func (r *request) need() int64 {
	if r.by.within(r.account) {
		return r.by.base() + r.n
	}
	return r.account.base() + r.n
}

// decide grants r if possible, rejects it if it can never be granted, and reports whether
// it did either. first reports whether no earlier request of an operation without memory
// is waiting. It requires memory.mu.
//
// Why a request that is granted never waits for one that is not: requests of m.over, and of accounts
// inside it, wait only for calls of WithBytes inside it, whose own requests are inside it too. When
// m.over ends, the account around it takes its place, so that what it kept counts as memory that
// the next unit needs, and the sum of what is granted above the budget stays below it.
func (b *Budget) decide(r *request, first bool) bool {
	m := &b.memory
	r.account, r.by = r.account.live(), r.by.live()
	switch need := r.need(); {
	case need > m.total:
		r.err = &LimitError{Need: need, Limit: m.total, Raise: b.Raise}
		close(r.ready)
		return true
	case !r.holds():
		if !first || r.n > m.free {
			return false
		}
	case r.n <= m.free:
	case m.over != nil && !r.by.within(m.over) && !r.account.within(m.over):
		return false
	case r.scoped && m.scope(r.by).scoped > 0:
		return false
	default:
		m.over = r.by
	}
	m.free -= r.n
	if r.scoped {
		r.account.count(1)
	}
	r.account.add(r.n, r.scoped)
	close(r.ready)
	return true
}

// withdraw ends the wait of r and returns memory granted meanwhile.
func (b *Budget) withdraw(r *request) {
	m := &b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	waited := slices.Contains(m.waiting, r)
	m.waiting = slices.DeleteFunc(m.waiting, func(w *request) bool { return w == r })
	if !waited && r.err == nil { // it was granted
		b.giveBack(r.account, r.n, r.scoped)
	}
	b.serve() // requests after r may proceed
}

// giveBack returns n bytes to the budget, without serving those that wait. It requires memory.mu.
func (b *Budget) giveBack(a *Account, n int64, scoped bool) {
	m := &b.memory
	m.free += n
	if scoped {
		a.count(-1)
	}
	a.add(-n, scoped)
	if m.free >= 0 {
		m.over = nil
	}
}

// serve decides all requests that can be decided. It requires memory.mu.
func (b *Budget) serve() {
	m := &b.memory
	first := true
	m.waiting = slices.DeleteFunc(m.waiting, func(w *request) bool {
		none := !w.holds()
		if b.decide(w, first) {
			return true
		}
		first = first && !none
		return false
	})
}
