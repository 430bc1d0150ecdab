package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/rules-offload/rules_offload/tests/internal/parsers"
)

var (
	parserNames = flag.String("parser", ".", "parsers of the part `parsers` to run, a regular expression")
	parserInput = flag.String("input", "", "a `file` to give to the chosen parsers, once, instead of a campaign")
	faultsDir   = flag.String("faults", "", "a `directory` for the inputs of faults; a new one if empty")
	least       = flag.Int64("least", 0, "the `number` of executions that each parser gets before others get more")
)

// chosenParsers returns the parsers of the flag.
func chosenParsers() ([]*parsers.Parser, error) {
	pattern, err := regexp.Compile("^(" + *parserNames + ")")
	if err != nil {
		return nil, err
	}
	roots, err := moduleRoots()
	if err != nil {
		return nil, err
	}
	list, err := parsers.List(roots...)
	if err != nil {
		return nil, err
	}
	var chosen []*parsers.Parser
	for _, p := range list {
		if pattern.MatchString(p.Name) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no parser is named %s", *parserNames)
	}
	return chosen, nil
}

// moduleRoots returns directories that may be the root of the module.
func moduleRoots() ([]string, error) {
	// The root is above the working directory of `go run`, `bazel run` and tests.
	roots := []string{os.Getenv("BUILD_WORKSPACE_DIRECTORY")}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		roots = append(roots, dir)
	}
	return roots, nil
}

// damagedInputs passes damaged inputs to every parser.
func damagedInputs(ctx context.Context, c *campaign) error {
	list, err := chosenParsers()
	if err != nil {
		return err
	}
	dir := *faultsDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "faults-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	progress := func(results []parsers.Result) {
		total, fewest, faults := int64(0), results[0], 0
		for _, r := range results {
			total += r.Executions
			faults += len(r.Faults)
			if r.Executions < fewest.Executions {
				fewest = r
			}
		}
		fmt.Printf("  %d executions, %d faults; fewest: %s, %d\n", total, faults, fewest.Parser, fewest.Executions)
	}
	results, err := parsers.Run(ctx, list, parsers.Options{Seed: c.seed, Lanes: runtime.GOMAXPROCS(0), Dir: dir, Least: *least}, progress)
	for _, r := range results {
		c.runs.Add(r.Executions)
		rate := float64(r.Executions) / max(r.Time.Seconds(), 1e-9)
		c.report("  %-16s %12d executions, %8.0f/s for each core", r.Parser, r.Executions, rate)
		for _, fault := range r.Faults {
			c.fault("%s", fault)
		}
	}
	if *faultsDir == "" {
		os.Remove(dir) // kept if it has inputs of failures
	}
	return err
}

// repeatInput passes one file to the chosen parsers.
func repeatInput(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	list, err := chosenParsers()
	if err != nil {
		return err
	}
	var faults error
	for _, p := range list {
		start := time.Now()
		err := parsers.Once(p, data)
		fmt.Printf("%s: %v, %s\n", p.Name, err, time.Since(start))
		if err != nil {
			faults = fmt.Errorf("%s: a fault", p.Name)
		}
	}
	return faults
}
