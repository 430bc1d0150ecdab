package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// soon fails the test if fn does not return in time.
func soon(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("stuck")
	}
}

// A lazy budget asks for its size once, when more than 256 KiB are held.
func TestLazy(t *testing.T) {
	asked := 0
	b := NewLazy(1, func() int64 { asked++; return 1 << 20 })
	hold := func(bytes int64) (*Reservation, error) { return b.Reserve(t.Context(), bytes) }
	small, err := hold(200 << 10)
	if err != nil || asked != 0 {
		t.Fatalf("got %v, asked %d times, want no error and 0", err, asked)
	}
	second, err := hold(100 << 10)
	if err != nil || asked != 1 {
		t.Fatalf("got %v, asked %d times, want no error and 1", err, asked)
	}
	var limit *LimitError
	if _, err := hold(2 << 20); !errors.As(err, &limit) || limit.Limit != 1<<20 {
		t.Errorf("got %v, want an error with the limit 1 MiB", err)
	}
	small.Release()
	second.Release()
	if b.Memory() != 1<<20 || b.memory.free != 1<<20 || asked != 1 {
		t.Errorf("got %d bytes, %d free, asked %d times, want 1 MiB, all of it free, once", b.Memory(), b.memory.free, asked)
	}
}

func TestEach(t *testing.T) {
	for _, cores := range []int{1, 2, 5} {
		for _, n := range []int{0, 1, 2, 100} {
			b := New(cores, 1)
			var running, most atomic.Int32
			seen := make([]atomic.Int32, n)
			err := b.Each(t.Context(), n, func(_ context.Context, i int) error {
				r := running.Add(1)
				for m := most.Load(); r > m && !most.CompareAndSwap(m, r); m = most.Load() {
				}
				seen[i].Add(1)
				running.Add(-1)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range seen {
				if seen[i].Load() != 1 {
					t.Errorf("%d of %d ran %d times", i, n, seen[i].Load())
				}
			}
			if int(most.Load()) > cores {
				t.Errorf("%d at once on %d cores", most.Load(), cores)
			}
		}
	}
}

// Units of a sequential context run one after another, also in nested calls.
func TestSequential(t *testing.T) {
	b := New(4, 1)
	var running atomic.Int32
	ctx := Sequential(t.Context())
	for _, ctx := range []context.Context{ctx, b.Account(ctx).Context(ctx), Sequential(b.Account(t.Context()).Context(t.Context()))} {
		err := b.Each(ctx, 20, func(ctx context.Context, i int) error {
			return b.Each(ctx, 3, func(context.Context, int) error {
				if running.Add(1) > 1 {
					t.Error("two at once")
				}
				time.Sleep(50 * time.Microsecond)
				running.Add(-1)
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The error does not depend on which unit fails first.
func TestEachLowestError(t *testing.T) {
	for _, cores := range []int{1, 2, 8} {
		b := New(cores, 1)
		for range 50 {
			var highest atomic.Int32
			err := b.Each(t.Context(), 1000, func(ctx context.Context, i int) error {
				highest.Store(int32(i))
				switch i {
				case 3:
					time.Sleep(time.Millisecond)
					return errors.New("three")
				case 4, 5, 9:
					return fmt.Errorf("number %d", i)
				}
				return nil
			})
			if message(err) != "three" {
				t.Fatalf("%d cores: %v", cores, err)
			}
			if highest.Load() > 20 {
				t.Errorf("went on to %d", highest.Load())
			}
		}
	}
}

func TestEachPanic(t *testing.T) {
	for _, cores := range []int{1, 4} {
		err := New(cores, 1).Each(t.Context(), 5, func(context.Context, int) error { panic("broken") })
		var p *guard.PanicError
		if !errors.As(err, &p) || p.Value != "broken" {
			t.Errorf("%v", err)
		}
	}
}

// Units that divide their own work do not wait for the cores they sit on.
func TestEachNested(t *testing.T) {
	for _, cores := range []int{1, 2, 3} {
		b := New(cores, 1)
		var leaves, running atomic.Int32
		soon(t, func() {
			err := b.Each(t.Context(), 6, func(ctx context.Context, _ int) error {
				return b.Each(ctx, 5, func(ctx context.Context, _ int) error {
					return b.Each(ctx, 4, func(context.Context, int) error {
						if r := running.Add(1); int(r) > cores {
							t.Errorf("%d leaves at once on %d cores", r, cores)
						}
						leaves.Add(1)
						running.Add(-1)
						return nil
					})
				})
			})
			if err != nil || leaves.Load() != 6*5*4 {
				t.Errorf("%d leaves, %v", leaves.Load(), err)
			}
		})
	}
}

// Nested units stay within the cores of the budget, and so does the memory that they reserve, also
// within memory that their operation reserved before.
func TestNestedUnitsKeepToTheBudget(t *testing.T) {
	const cores, bytes, window = 4, 100, 30
	b := New(cores, bytes)
	var running, most atomic.Int32
	var used, mostUsed atomic.Int64
	raise := func(most *atomic.Int64, n int64) {
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
	}
	soon(t, func() {
		err := b.WithBytes(t.Context(), 20, func(ctx context.Context) error {
			return b.Each(ctx, 8, func(ctx context.Context, _ int) error {
				return b.Each(ctx, 8, func(ctx context.Context, _ int) error {
					return b.WithBytes(ctx, window, func(context.Context) error {
						r := running.Add(1)
						for m := most.Load(); r > m && !most.CompareAndSwap(m, r); m = most.Load() {
						}
						raise(&mostUsed, used.Add(window))
						time.Sleep(time.Millisecond)
						used.Add(-window)
						running.Add(-1)
						return nil
					})
				})
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
	if most.Load() > cores {
		t.Errorf("%d units at once on %d cores", most.Load(), cores)
	}
	if mostUsed.Load() > bytes-20 {
		t.Errorf("%d bytes at once of the %d that are left", mostUsed.Load(), bytes-20)
	}
	if b.memory.free != bytes || !b.cores.TryAcquire(cores) {
		t.Error("something was not given back")
	}
}

// Units that wait for memory at the same time release exactly one core each.
func TestUnitsThatWaitKeepTheirCores(t *testing.T) {
	b := New(2, 10)
	for range 50 {
		soon(t, func() {
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					b.Each(t.Context(), 2, func(ctx context.Context, _ int) error {
						return b.Each(ctx, 4, func(ctx context.Context, _ int) error {
							return b.WithBytes(ctx, 6, func(context.Context) error { return nil })
						})
					})
				})
			}
			wg.Wait()
		})
	}
	if b.memory.free != 10 || !b.cores.TryAcquire(2) {
		t.Error("something was not given back")
	}
}

// An operation that holds memory never waits for another operation to get more.
func TestReserveWhileHolding(t *testing.T) {
	b := New(1, 10)
	one, two := b.Account(t.Context()).Context(t.Context()), b.Account(t.Context()).Context(t.Context())
	soon(t, func() {
		for _, ctx := range []context.Context{one, two} {
			first, err := b.Reserve(ctx, 5)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Release()
		}
		// One operation exceeds the free memory; the other waits until it has released it.
		more, err := b.Reserve(one, 5)
		if err != nil {
			t.Fatal(err)
		}
		waits := make(chan *Reservation)
		go func() {
			r, err := b.Reserve(two, 5)
			if err != nil {
				t.Error(err)
			}
			waits <- r
		}()
		select {
		case <-waits:
			t.Error("two operations take more than is free at once")
		case <-time.After(5 * time.Millisecond):
		}
		more.Release()
		(<-waits).Release()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if _, err := b.Reserve(ctx, 1); err != context.DeadlineExceeded {
			t.Errorf("an operation that holds nothing does not wait: %v", err)
		}
	})
}

// An operation fails if its memory, with the memory that it and its callers hold, exceeds the
// budget. It waits for memory of other operations and of parallel work.
func TestLimit(t *testing.T) {
	b := New(2, 100)
	b.Raise = "raise it"
	refused := func(err error, need int64) {
		t.Helper()
		var limit *LimitError
		if !errors.As(err, &limit) || *limit != (LimitError{Need: need, Limit: 100, Raise: "raise it"}) {
			t.Errorf("%v", err)
		}
	}
	soon(t, func() {
		ctx := b.Account(t.Context()).Context(t.Context())
		_, err := b.Reserve(ctx, 101)
		refused(err, 101)
		refused(b.WithBytes(ctx, 1<<40, func(context.Context) error { t.Error("ran"); return nil }), 1<<40)
		ten, err := b.Reserve(ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Reserve(ctx, 91)
		refused(err, 101)
		err = b.WithBytes(ctx, 50, func(ctx context.Context) error {
			_, err := b.Reserve(ctx, 41)
			refused(err, 101)
			return b.WithBytes(ctx, 41, func(context.Context) error { t.Error("ran"); return nil })
		})
		refused(err, 101)
		// Three units of 90 bytes hold at most 90 bytes at a time.
		err = b.Each(ctx, 3, func(ctx context.Context, _ int) error {
			return b.WithBytes(ctx, 90, func(context.Context) error { time.Sleep(time.Millisecond); return nil })
		})
		if err != nil {
			t.Error(err)
		}
		// The memory of parallel units does not count for each of them.
		err = b.Each(ctx, 3, func(ctx context.Context, _ int) error {
			r, err := b.Reserve(ctx, 40)
			defer r.Release()
			time.Sleep(time.Millisecond)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		// What they keep counts.
		kept := make([]*Reservation, 2)
		err = b.Each(ctx, 2, func(ctx context.Context, i int) (err error) {
			return b.WithBytes(ctx, 20, func(ctx context.Context) error {
				kept[i], err = b.Reserve(ctx, 20)
				return err
			})
		})
		if err != nil {
			t.Error(err)
		}
		_, err = b.Reserve(ctx, 60)
		refused(err, 110)
		if n := kept[0].GiveBack(15); n != 15 {
			t.Errorf("gave back %d", n)
		}
		_, err = b.Reserve(ctx, 76)
		refused(err, 111)
		if n := kept[0].GiveBack(15); n != 5 {
			t.Errorf("gave back %d", n)
		}
		kept[0].Release()
		kept[1].Release()
		ten.Release()
		ten.Release()
	})
	if b.memory.free != 100 || b.memory.over != nil {
		t.Error("something was not given back")
	}
}

// A nil Budget is that of the process.
func TestNilBudget(t *testing.T) {
	var b *Budget
	n := 0
	err := b.WithBytes(t.Context(), 1, func(ctx context.Context) error {
		return b.Each(ctx, 1, func(context.Context, int) error { n++; return nil })
	})
	if err != nil || n != 1 || b.Cores() < 1 {
		t.Errorf("ran %d times on %d cores: %v", n, b.Cores(), err)
	}
	r, err := b.Reserve(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
}

// A request is answered at once when it is cancelled, though others keep every core.
func TestCancelWhileCoresAreTaken(t *testing.T) {
	b := New(2, 1)
	release := make(chan struct{})
	var others sync.WaitGroup
	var taken sync.WaitGroup
	taken.Add(2)
	others.Go(func() {
		b.Each(t.Context(), 2, func(context.Context, int) error {
			taken.Done()
			<-release
			return nil
		})
	})
	taken.Wait()
	defer others.Wait()
	defer close(release)
	for _, n := range []int{1, 10} {
		cause := errors.New("no reader")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
		soon(t, func() {
			err := b.Each(ctx, n, func(context.Context, int) error { t.Error("ran"); return nil })
			if err != cause {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestCancelledBefore(t *testing.T) {
	b := New(2, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int{1, 10} {
		err := b.Each(ctx, n, func(context.Context, int) error { t.Error("ran"); return nil })
		if err != context.Canceled {
			t.Errorf("%v", err)
		}
	}
}

func TestOrdered(t *testing.T) {
	for _, cores := range []int{1, 2, 7} {
		for _, ahead := range []int{0, 1, 3, 1000} {
			b := New(cores, 1)
			var produced, consumed atomic.Int32
			next := 0
			err := Ordered(t.Context(), b, 200, ahead,
				func(_ context.Context, i int) (int, error) {
					// Between this one and the last consumed there are never more than ahead.
					if p, c := produced.Add(1), consumed.Load(); p > c+int32(max(ahead, 1)) {
						t.Errorf("%d produced, %d consumed, %d ahead", p, c, ahead)
					}
					return i * i, nil
				},
				func(i, piece int) error {
					if i != next || piece != i*i {
						t.Errorf("piece %d is %d, want number %d", i, piece, next)
					}
					next++
					consumed.Add(1)
					return nil
				})
			if err != nil || next != 200 {
				t.Errorf("%d consumed, %v", next, err)
			}
		}
	}
}

func TestOrderedErrors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "n")
		b := New(rapid.IntRange(1, 4).Draw(t, "cores"), 1)
		producer := rapid.IntRange(0, 40).Draw(t, "producer")
		consumer := rapid.IntRange(0, 40).Draw(t, "consumer")
		nested := rapid.Bool().Draw(t, "nested")
		next := 0
		do := func(ctx context.Context) error {
			return Ordered(ctx, b, n, rapid.IntRange(1, 8).Draw(t, "ahead"),
				func(_ context.Context, i int) (int, error) {
					if i >= producer {
						return 0, fmt.Errorf("producing %d", i)
					}
					return i, nil
				},
				func(i, piece int) error {
					if i != next || piece != i {
						t.Fatalf("piece %d is %d, want number %d", i, piece, next)
					}
					if i == consumer {
						return fmt.Errorf("consuming %d", i)
					}
					next++
					return nil
				})
		}
		var err error
		if nested {
			err = b.Each(context.Background(), 1, func(ctx context.Context, _ int) error { return do(ctx) })
		} else {
			err = do(context.Background())
		}
		want, reach := "", n
		if producer < n {
			want, reach = fmt.Sprintf("producing %d", producer), producer
		}
		if consumer < reach {
			want, reach = fmt.Sprintf("consuming %d", consumer), consumer
		}
		if message(err) != want || next != reach {
			t.Fatalf("%d consumed, want %d; error %q, want %q", next, reach, message(err), want)
		}
	})
}

func TestWithBytes(t *testing.T) {
	b := New(4, 100)
	var used, most atomic.Int64
	soon(t, func() {
		err := b.Each(t.Context(), 200, func(ctx context.Context, i int) error {
			n := int64(i / 4)
			return b.WithBytes(ctx, n, func(ctx context.Context) error {
				u := used.Add(n)
				defer used.Add(-n)
				for m := most.Load(); u > m && !most.CompareAndSwap(m, u); m = most.Load() {
				}
				// A nested operation does not wait for memory of its own.
				return b.WithBytes(ctx, 100-n, func(ctx context.Context) error {
					return b.Each(ctx, 3, func(context.Context, int) error { return nil })
				})
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
	if most.Load() > 100 {
		t.Errorf("%d bytes at once", most.Load())
	}
	if b.memory.free != 100 || !b.cores.TryAcquire(4) {
		t.Error("something was not given back")
	}
}

// Requests that take bytes before cores and requests that take cores before
// bytes do not block each other.
func TestBytesAndCores(t *testing.T) {
	b := New(2, 10)
	soon(t, func() {
		var wg sync.WaitGroup
		for r := range 20 {
			wg.Go(func() {
				var err error
				if r%2 == 0 {
					err = b.WithBytes(t.Context(), 7, func(ctx context.Context) error {
						return b.Each(ctx, 20, func(context.Context, int) error { return nil })
					})
				} else {
					err = b.Each(t.Context(), 20, func(ctx context.Context, _ int) error {
						return b.WithBytes(ctx, 6, func(context.Context) error { return nil })
					})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// Waiting for bytes ends at once when cancelled, and loses no core or byte.
func TestWithBytesCancelled(t *testing.T) {
	b := New(1, 10)
	held, release := make(chan struct{}), make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		b.WithBytes(t.Context(), 10, func(context.Context) error {
			close(held)
			<-release
			return nil
		})
	})
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Millisecond, cancel)
	soon(t, func() {
		err := b.Each(ctx, 1, func(ctx context.Context, _ int) error {
			err := b.WithBytes(ctx, 1, func(context.Context) error { t.Error("ran"); return nil })
			if err != context.Canceled {
				t.Errorf("bytes: %v", err)
			}
			// A unit without its core does not get another core.
			return b.Each(ctx, 1, func(context.Context, int) error { t.Error("ran"); return nil })
		})
		if err != context.Canceled {
			t.Errorf("cores: %v", err)
		}
	})
	close(release)
	other.Wait()
	if b.memory.free != 10 || !b.cores.TryAcquire(1) {
		t.Error("something was not given back")
	}
}

func BenchmarkEach(b *testing.B) {
	budget := New(2, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := budget.Each(b.Context(), 100, func(context.Context, int) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// message returns the message of an error, "" for none.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
