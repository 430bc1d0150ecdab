// Campaign looks for ways to get wrong bytes, partial outputs, crashes, hangs and
// leaks out of the program: damaged inputs, failing system calls, kills, inputs
// that change, two processes on one output, a worker under load, all parsers
// with changed seeds, and all fuzz targets. Run it by
//
//	./bazelw run //tests/campaign -- --hours=1
//
// It prints what it did and every fault with a seed that shows it again. CI runs
// each part for some seconds (campaign_test.go).
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/root"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	hours := flag.Float64("hours", 0.1, "total duration of all parts")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random choices")
	only := flag.String("only", ".", "parts to run, a regular `expression`")
	program := flag.String("program", "", "the program `offload`; built from the sources if empty")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if *parserInput != "" {
		return repeatInput(*parserInput)
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if err := root.Enter("strace"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "campaign-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := findProgram(*program, dir)
	if err != nil {
		return err
	}
	var chosen []part
	for _, p := range append(parts(), part{"fuzz", fuzz}) {
		if pattern.MatchString(p.name) {
			chosen = append(chosen, p)
		}
	}
	fmt.Printf("seed %d\n", *seed)
	faults := 0
	for _, p := range chosen {
		c, err := newCampaign(path, filepath.Join(dir, p.name), *seed)
		if err != nil {
			return err
		}
		start := time.Now()
		limit, cancel := context.WithTimeout(ctx, time.Duration(*hours*float64(time.Hour))/time.Duration(len(chosen)))
		err = p.run(limit, c)
		cancel()
		fmt.Printf("%-10s %10d runs, %d faults, %s\n", p.name, c.runs.Load(), len(c.faults), time.Since(start).Round(time.Second))
		for _, line := range c.lines {
			fmt.Println(line)
		}
		for _, fault := range c.faults {
			fmt.Printf("  FAULT %s\n", fault)
		}
		faults += len(c.faults)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if faults > 0 {
		return fmt.Errorf("%d faults", faults)
	}
	return nil
}

// findProgram returns the program: that of the flag, that of the Bazel build, or a new build.
func findProgram(program, dir string) (string, error) {
	program = cmp.Or(program, os.Getenv("OFFLOAD"))
	if program != "" {
		if os.Getenv("BUILD_WORKSPACE_DIRECTORY") != "" && !filepath.IsAbs(program) {
			program = filepath.Join("..", program) // bazel run starts below all runfiles
		}
		return filepath.Abs(program)
	}
	project, err := root.Project()
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "offload")
	build := exec.Command("go", "build", "-o", program, "./cmd/offload")
	build.Dir, build.Stderr = project, os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return program, build.Run()
}
