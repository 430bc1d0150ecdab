package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

// result is the measurement of an operation with a corpus.
type result struct {
	corpus    *corpus
	raw       int64 // bytes of the plain bundle or archive
	operation operation

	faster         spread // wall time of each pair of runs: LLVM's divided by ours
	lighter        spread // peak memory, likewise
	peerSize, size int64  // of the output; 0 if it is not compared
}

// spread is the median of ratios, and their quartiles.
type spread struct{ low, median, high float64 }

func spreadOf(ratios []float64) spread {
	slices.Sort(ratios)
	n := len(ratios)
	return spread{ratios[n/4], ratios[n/2], ratios[(3*n-1)/4]}
}

// longRun is the longest time of a pair of runs for which all runs are done.
const longRun = 3 * time.Second

// measure runs all operations with a corpus and prints them.
func (b *bench) measure(ctx context.Context, c *corpus, pattern *regexp.Regexp) ([]result, error) {
	w, err := b.newWork(ctx, c)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(w.dir)
	fmt.Printf("\n%s: %s, %.1f MB\n", c.name, c.about, float64(w.raw)/1e6)
	fmt.Printf("  %-34s %22s %7s %13s %8s\n", "times", "faster (quartiles)", "wanted", "less memory", "smaller")
	var results []result
	for _, op := range w.operations(c) {
		if !pattern.MatchString(op.name) {
			continue
		}
		r, err := w.operation(ctx, op)
		if err != nil {
			return results, fmt.Errorf("%s: %w", op.name, err)
		}
		r.corpus = c
		results = append(results, r)
		fmt.Println(" ", r)
	}
	return results, nil
}

// operation measures one operation: after a warm-up run of each program, they run alternately.
func (w *work) operation(ctx context.Context, op operation) (result, error) {
	r := result{raw: w.raw, operation: op}
	if _, err := w.runner.run(w.dir, op.cached); err != nil {
		return r, err
	}
	var faster, lighter []float64
	for i, n := 0, w.runs; i <= n; i++ {
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		peer, err := w.runner.run(w.dir, op.peer)
		if err != nil {
			return r, err
		}
		our, err := w.runner.run(w.dir, op.ours)
		if err != nil {
			return r, err
		}
		if i == 0 {
			if peer.Wall+our.Wall > longRun {
				n = min(n, 3)
			}
			continue
		}
		faster = append(faster, peer.Wall.Seconds()/our.Wall.Seconds())
		lighter = append(lighter, float64(peer.Memory)/float64(our.Memory))
	}
	if err := op.check(); err != nil {
		return r, fmt.Errorf("wrong output: %w", err)
	}
	r.faster, r.lighter = spreadOf(faster), spreadOf(lighter)
	if op.output != "" {
		for _, f := range []struct {
			dir  string
			size *int64
		}{{peerDir, &r.peerSize}, {oursDir, &r.size}} {
			fi, err := os.Stat(w.path(out(f.dir, op.output)))
			if err != nil {
				return r, err
			}
			*f.size = fi.Size()
		}
	}
	return r, nil
}

// smaller returns the size difference to the peer's output, in percent.
func (r result) smaller() string {
	if r.peerSize == 0 || r.peerSize == r.size {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100-100*float64(r.size)/float64(r.peerSize))
}

// String returns a line of the table.
func (r result) String() string {
	wanted := ""
	if r.operation.want > 0 {
		wanted = fmt.Sprintf("%.1f", r.operation.want)
		if r.faster.median < r.operation.want {
			wanted += " !"
		}
	}
	return fmt.Sprintf("%-34s %6.1f (%5.1f … %5.1f) %7s %13.1f %8s", r.operation.name,
		r.faster.median, r.faster.low, r.faster.high, wanted, r.lighter.median, r.smaller())
}
