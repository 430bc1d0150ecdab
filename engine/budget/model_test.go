package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// step is what a unit of work does: it reserves memory, holds memory for other steps, divides its work
// into units, or takes time.
type step struct {
	kind  string // "reserve", "outer", "with", "each" or "wait"
	n     int64  // bytes
	keep  string // of a reservation: "step" or "unit" until its end, "caller" beyond the unit, "part" in part
	level int    // of outer: which account around the unit
	wait  time.Duration
	steps []step   // of with
	units [][]step // of each
}

// drawSteps draws the steps of a unit of work.
func drawSteps(t *rapid.T, depth int) []step {
	kinds := []string{"reserve", "reserve", "outer", "wait"}
	if depth > 0 {
		kinds = append(kinds, "with", "with", "each", "each")
	}
	var steps []step
	for range rapid.IntRange(0, 4).Draw(t, "steps") {
		s := step{
			kind:  rapid.SampledFrom(kinds).Draw(t, "kind"),
			n:     rapid.Int64Range(0, 110).Draw(t, "n"),
			keep:  rapid.SampledFrom([]string{"step", "unit", "caller", "part"}).Draw(t, "keep"),
			level: rapid.IntRange(0, 2).Draw(t, "level"),
			wait:  time.Duration(rapid.IntRange(0, 3).Draw(t, "wait")) * time.Second,
		}
		switch s.kind {
		case "with":
			s.steps = drawSteps(t, depth-1)
		case "each":
			for range rapid.IntRange(1, 3).Draw(t, "units") {
				s.units = append(s.units, drawSteps(t, depth-1))
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// execution runs the steps of operations and adds up what they hold.
type execution struct {
	budget     *Budget
	used, most atomic.Int64
	refusals   atomic.Int32
	mu         sync.Mutex
	problems   []error
}

func (e *execution) use(n int64) {
	used := e.used.Add(n)
	for most := e.most.Load(); used > most && !e.most.CompareAndSwap(most, used); most = e.most.Load() {
	}
}

// kept is a reservation of n bytes.
type kept struct {
	r *Reservation
	n int64
}

func (e *execution) release(list []kept) {
	for _, k := range list {
		e.used.Add(-k.n)
		k.r.Release()
	}
}

// refused reports whether err ends the unit of work. Operations continue after a refusal.
func (e *execution) refused(err error) bool {
	var limit *LimitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &limit):
		e.refusals.Add(1)
		return false
	}
	if !errors.Is(err, context.Canceled) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.problems = append(e.problems, err)
	}
	return true
}

// run runs the steps of one unit of work, and returns the reservations that its caller has to release.
// around are the accounts around it, the innermost last.
func (e *execution) run(ctx context.Context, steps []step, around []*Account) (out []kept) {
	b := e.budget
	around = append(slices.Clone(around), b.Account(ctx))
	var mine []kept
	defer func() { e.release(mine) }()
	for _, s := range steps {
		switch s.kind {
		case "reserve", "outer":
			account := around[max(0, len(around)-1-s.level)]
			if s.kind == "reserve" {
				account = around[len(around)-1]
			}
			r, err := account.Reserve(ctx, s.n)
			if err != nil {
				if e.refused(err) {
					return out
				}
				continue
			}
			e.use(s.n)
			k := kept{r, s.n}
			time.Sleep(s.wait)
			switch s.keep {
			case "step":
				e.release([]kept{k})
			case "unit":
				mine = append(mine, k)
			case "caller":
				out = append(out, k)
			case "part":
				e.used.Add(-s.n / 2)
				r.GiveBack(s.n / 2)
				mine = append(mine, kept{r, s.n - s.n/2})
			}
		case "with":
			err := b.WithBytes(ctx, s.n, func(ctx context.Context) error {
				e.use(s.n)
				defer e.used.Add(-s.n)
				time.Sleep(s.wait)
				mine = append(mine, e.run(ctx, s.steps, around)...)
				return nil
			})
			if e.refused(err) {
				return out
			}
		case "each":
			lists := make([][]kept, len(s.units))
			err := b.Each(ctx, len(s.units), func(ctx context.Context, i int) error {
				lists[i] = e.run(ctx, s.units[i], around)
				return nil
			})
			mine = append(mine, slices.Concat(lists...)...)
			if e.refused(err) {
				return out
			}
		case "wait":
			time.Sleep(s.wait)
		}
	}
	return out
}

// operations runs operations in parallel, cancels each after its time, and records what is wrong.
func (e *execution) operations(programs [][]step, ends []time.Duration) {
	b := e.budget
	total := b.Memory()
	all, cancelAll := context.WithCancel(context.Background())
	defer cancelAll()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for i, program := range programs {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(b.Account(all).Context(all))
				defer cancel()
				if ends[i] > 0 {
					defer time.AfterFunc(ends[i], cancel).Stop()
				}
				e.release(e.run(ctx, program, nil))
			})
		}
		wg.Wait()
	}()
	select {
	case <-done:
	case <-time.After(1000 * time.Hour): // of the clock of the bubble: nothing can go on
		e.problems = append(e.problems, fmt.Errorf("stuck: %d bytes free, %d wait", b.memory.free, len(b.memory.waiting)))
		cancelAll()
		<-done
	}
	if most := e.most.Load(); most > 2*total {
		e.problems = append(e.problems, fmt.Errorf("%d bytes at a time of %d", most, total))
	}
	if b.memory.free != total || b.memory.over != nil || len(b.memory.waiting) > 0 || !b.cores.TryAcquire(int64(b.ncores)) {
		e.problems = append(e.problems, fmt.Errorf("not given back: %d bytes free, %d wait, over %v", b.memory.free, len(b.memory.waiting), b.memory.over))
	}
}

// Operations terminate, whatever their units of work reserve, keep, pass to their callers and release,
// and hold at most twice the budget together.
func TestOperations(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cores := rapid.IntRange(1, 8).Draw(rt, "cores")
		var programs [][]step
		var ends []time.Duration
		for range rapid.IntRange(1, 8).Draw(rt, "operations") {
			programs = append(programs, drawSteps(rt, 3))
			ends = append(ends, time.Duration(max(0, rapid.IntRange(-20, 10).Draw(rt, "end")))*time.Second)
		}
		e := new(execution)
		synctest.Test(t, func(*testing.T) {
			e.budget = New(cores, 100)
			e.operations(programs, ends)
		})
		if e.problems != nil {
			rt.Fatal(errors.Join(e.problems...))
		}
	})
}

// Cases in which operations once waited for ever, each with the requests in the order of the clock.
func TestOperationsProceed(t *testing.T) {
	const s = time.Second
	wait := func(d time.Duration) step { return step{kind: "wait", wait: d} }
	reserve := func(n int64, keep string, d time.Duration) step {
		return step{kind: "reserve", n: n, keep: keep, wait: d}
	}
	for _, test := range []struct {
		name     string
		programs [][]step
		refused  int32
	}{
		{"with what the others keep, a unit needs more than the budget", [][]step{
			{{kind: "each", units: [][]step{
				{reserve(60, "caller", 2*s)},
				{wait(s), reserve(61, "caller", 2*s)},
				{wait(2 * s), reserve(20, "unit", 0)},
			}}},
		}, 1},
		{"two operations wait for a unit that keeps its memory", [][]step{
			{{kind: "each", units: [][]step{
				{reserve(40, "unit", 3*s), reserve(5, "unit", 0)},
				{wait(s), reserve(50, "caller", 3*s)},
			}}},
			{reserve(30, "unit", 2*s), reserve(31, "unit", 0)},
		}, 0},
		{"a unit above the budget waits for another one's WithBytes, which waits for the unit", [][]step{
			{{kind: "each", units: [][]step{
				{{kind: "with", n: 40, wait: 2 * s, steps: []step{reserve(10, "unit", 0)}}},
				{wait(s), reserve(70, "unit", 2*s), {kind: "with", n: 20}},
			}}},
		}, 0},
		{"a unit above the budget reserves for its operation", [][]step{
			{{kind: "each", units: [][]step{
				{reserve(60, "caller", 3*s)},
				{wait(s), reserve(41, "unit", 0), {kind: "outer", level: 1, n: 20, keep: "unit", wait: s}},
			}}},
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			// With a core for each unit, so that the clock alone orders the requests.
			synctest.Test(t, func(t *testing.T) {
				e := &execution{budget: New(8, 100)}
				e.operations(test.programs, make([]time.Duration, len(test.programs)))
				if err := errors.Join(e.problems...); err != nil || e.refusals.Load() != test.refused {
					t.Errorf("got %v and %d refusals, want no error and %d", err, e.refusals.Load(), test.refused)
				}
			})
		})
	}
}
