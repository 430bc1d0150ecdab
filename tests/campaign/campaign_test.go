package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/verb"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
)

func TestMain(m *testing.M) {
	if err := root.Enter("strace"); err != nil {
		panic(err)
	}
	llvm.Main(m)
}

// TestCampaign runs each part for some seconds. The seed is fixed, so that only a change of the
// code can make CI fail.
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

// TestCommandLines requires that each command line of the part verbs works with an undamaged file,
// and that each verb has a command line.
func TestCommandLines(t *testing.T) {
	c := &campaign{dir: t.TempDir(), seed: 1}
	r, err := newVerbRun(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range commandLines {
		line := &commandLines[i]
		works := false
		for _, s := range r.seeds[line.format] {
			status, err := r.once(t.Context(), line, s.Data())
			if err != nil {
				t.Fatal(err)
			}
			if works = works || status == 0; works {
				break
			}
		}
		if !works {
			t.Errorf("%s: no file of format %s works", line.words, line.format)
		}
	}
	for _, fault := range c.faults {
		t.Error(fault)
	}
	var help bytes.Buffer
	verb.Run(t.Context(), &command.Call{Name: "offload", Args: []string{"help"}, Stdout: &help, Stderr: &help})
	found := regexp.MustCompile(`(?m)^  ([a-z][a-z -]*?)  +[A-Z]`).FindAllStringSubmatch(help.String(), -1)
	if len(found) < 10 {
		t.Fatalf("%d verbs in %s", len(found), help.String())
	}
	for _, m := range found {
		covered := slices.Contains(withoutFile, m[1]) || slices.ContainsFunc(commandLines, func(l commandLine) bool {
			return strings.HasPrefix(l.words, "offload "+m[1]+" ")
		})
		if !covered {
			t.Errorf("no command line for the verb %s", m[1])
		}
	}
}

// TestWitness runs each command line among files of a user: with new outputs, with outputs that it
// replaces, and killed.
func TestWitness(t *testing.T) {
	c := &campaign{dir: t.TempDir(), seed: 1, program: llvm.Offload(t)}
	w, err := newWitness(c)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range slices.Concat(commandLines, linkLines) {
		works := false
		for _, s := range w.seeds[line.format] {
			status, err := w.watch(t.Context(), &line, s.Data(), false, "")
			if err != nil {
				t.Fatal(err)
			}
			if works = status == 0; !works {
				continue
			}
			kill := killAt[i%3] // the calls that name files
			for _, kill := range []string{"", kill} {
				if _, err := w.watch(t.Context(), &line, s.Data(), true, kill); err != nil {
					t.Fatal(err)
				}
			}
			break
		}
		if !works {
			t.Errorf("%s: no file of format %s works", line.words, line.format)
		}
	}
	for _, fault := range c.faults {
		t.Error(fault)
	}
}
