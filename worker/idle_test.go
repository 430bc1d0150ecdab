package worker

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Memory goes back once in each idle period, and never while work goes on.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		handler := func(context.Context, *Request) int {
			time.Sleep(3 * time.Minute)
			return 0
		}
		s := newServer(ctx, handler, Options{IdleAfter: time.Minute}.withDefaults())
		var freed atomic.Int32
		s.freeMemory = func() { freed.Add(1) }
		requests, in := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.serve(requests, io.Discard, cancel) }()
		for i, step := range []struct {
			request bool
			wait    time.Duration
			want    int32
		}{
			{false, 50 * time.Second, 0},
			{true, 2 * time.Minute, 0},    // at work for one more minute
			{false, 110 * time.Second, 0}, // idle for 50 s
			{false, 20 * time.Second, 1},
			{false, time.Hour, 1},
			{true, 3*time.Minute + 50*time.Second, 1},
			{true, 4*time.Minute + time.Second, 2},
			{false, time.Hour, 2},
		} {
			if step.request {
				in.Write([]byte{0})
			}
			time.Sleep(step.wait)
			if got := freed.Load(); got != step.want {
				t.Errorf("step %d: memory freed %d times, want %d", i, got, step.want)
			}
		}
		in.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if freed.Load() != 2 {
			t.Errorf("memory freed after the end")
		}
	})
}
