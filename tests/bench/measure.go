package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

// result is an operation with a corpus, measured.
type result struct {
	corpus    *corpus
	raw       int64 // bytes of the plain bundle or archive
	operation operation

	faster           spread        // wall time, peer's by ours, run by run
	peerTime, ours   time.Duration // medians
	lighter          float64       // memory, peer's by ours
	peerMem, oursMem int64
	peerSize, size   int64 // of the output; 0 if it is not compared
}

// spread is the median of ratios and the middle half of them.
type spread struct{ low, median, high float64 }

func spreadOf(ratios []float64) spread {
	slices.Sort(ratios)
	n := len(ratios)
	return spread{ratios[n/4], ratios[n/2], ratios[(3*n-1)/4]}
}

// longRun is what a pair of runs may take for all runs to be done.
const longRun = 3 * time.Second

// measure runs all operations with a corpus and prints them.
func (b *bench) measure(ctx context.Context, c *corpus, pattern *regexp.Regexp) ([]result, error) {
	w, err := b.newWork(c)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(w.dir)
	fmt.Printf("\n%s: %s, %.1f MB\n", c.name, c.about, float64(w.raw)/1e6)
	fmt.Printf("  %-34s %9s %9s %20s %7s %9s %9s %7s\n", "", "LLVM", "offload", "faster (quartiles)", "wanted", "LLVM", "offload", "smaller")
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

// operation measures one operation: after a run of each that does not count, the two
// programs in turn.
func (w *work) operation(ctx context.Context, op operation) (result, error) {
	r := result{raw: w.raw, operation: op}
	if _, err := w.runner.run(w.dir, op.cached); err != nil {
		return r, err
	}
	var ratios []float64
	var peers, ours []cost
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
		peers, ours = append(peers, peer), append(ours, our)
		ratios = append(ratios, peer.Wall.Seconds()/our.Wall.Seconds())
	}
	if err := op.check(); err != nil {
		return r, fmt.Errorf("wrong output: %w", err)
	}
	r.faster = spreadOf(ratios)
	r.peerTime, r.peerMem = medians(peers)
	r.ours, r.oursMem = medians(ours)
	r.lighter = float64(r.peerMem) / float64(r.oursMem)
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

// medians returns the median wall time and memory.
func medians(costs []cost) (time.Duration, int64) {
	var wall []time.Duration
	var memory []int64
	for _, c := range costs {
		wall, memory = append(wall, c.Wall), append(memory, c.Memory)
	}
	slices.Sort(wall)
	slices.Sort(memory)
	return wall[len(wall)/2], memory[len(memory)/2]
}

// smaller returns by how many percent the output is smaller than the peer's.
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
	return fmt.Sprintf("%-34s %9s %9s %7.1f (%.1f … %.1f) %7s %6d MB %6d MB %7s", r.operation.name, seconds(r.peerTime), seconds(r.ours),
		r.faster.median, r.faster.low, r.faster.high, wanted, r.peerMem>>20, r.oursMem>>20, r.smaller())
}

// seconds formats a time.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
