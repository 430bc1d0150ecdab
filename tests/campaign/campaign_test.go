package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/tests/llvm"
	"github.com/rules-offload/rules_offload/tests/root"
)

func TestMain(m *testing.M) {
	if err := root.Enter("strace"); err != nil {
		panic(err)
	}
	llvm.Main(m)
}

// TestCampaign runs each part for some seconds. The seed is fixed, so that a change
// that breaks CI is the change that was made.
func TestCampaign(t *testing.T) {
	const seed = 18
	program := llvm.Offload(t)
	if _, err := os.Stat(program); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts() {
		t.Run(p.name, func(t *testing.T) {
			c, err := newCampaign(program, t.TempDir(), seed)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if err := p.run(ctx, c); err != nil {
				t.Fatal(err)
			}
			for _, line := range c.lines {
				t.Log(line)
			}
			for _, fault := range c.faults {
				t.Error(fault)
			}
			t.Logf("%d runs", c.runs.Load())
			if c.runs.Load() == 0 {
				t.Error("nothing was run")
			}
		})
	}
}
