// Package launcher is the command line of offload launch: its configuration, the stores of results, and what it
// reports.
package launcher

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/launch"
)

// Options are those of a call.
type Options struct {
	// Command is the compiler and its arguments.
	Command []string
	// ShowKey prints the keys of the steps on Stdout.
	ShowKey bool
	// Explain prints on Stderr why steps ran.
	Explain bool

	Stdout, Stderr io.Writer
	// Color reports whether Stderr is a terminal with colours.
	Color bool
	// Memory is the memory of the machine or container, in bytes.
	Memory int64
}

// Run runs a compilation, from the cache if it can. The result is the exit code if done is true. Otherwise the caller
// runs command instead, with the environment env.
func Run(ctx context.Context, opt Options) (done bool, command, env []string, err error) {
	env = os.Environ()
	config, err := Load(".", os.LookupEnv)
	if err != nil {
		return false, nil, nil, err
	}
	command = append(strings.Fields(config.Launch.Next), opt.Command...)
	if config.Launch.Disable || len(opt.Command) == 0 {
		return false, command, env, nil
	}
	var once sync.Once
	warn := func(err error) {
		once.Do(func() { fmt.Fprintf(opt.Stderr, "offload launch: warning: %s\n", printable.Error(err)) })
	}
	dir, err := os.Getwd()
	if err != nil {
		return false, command, env, nil //nolint:nilerr // the compiler reports it
	}
	local := config.Local()
	store, end := config.store(local, warn)
	defer end()
	out, err := launch.Run(ctx, launch.Options{
		Command: opt.Command, Env: env, Dir: dir, Store: store, Local: local, BaseDir: config.Cache.BaseDir, SharedNames: config.Cache.SharedNames,
		Slots: config.slots(opt.Memory), Stderr: opt.Stderr, Color: opt.Color,
	})
	if err != nil {
		return true, nil, nil, err
	}
	if out.Warning != nil {
		warn(out.Warning)
	}
	counts := cache.Counters{"compilations": 1}
	if out.Passed != "" {
		counts["passed: "+category(out.Passed)]++
	}
	for _, s := range out.Steps {
		if out.Passed == "" {
			counts[s.State+": "+kind(s.Target)]++
		}
	}
	if err := local.Count(counts); err != nil {
		warn(err)
	}
	report(opt, config, out)
	return out.Passed == "", command, env, nil
}

// category returns the reason without the names of files.
func category(reason string) string {
	words := strings.Fields(reason)
	for i, word := range words {
		if strings.ContainsRune(word, '/') {
			words[i] = "…"
		}
	}
	return strings.Join(words, " ")
}

// kind returns what a step compiles for.
func kind(target string) string {
	if target == "host" || target == "package" {
		return target
	}
	return "device"
}

// report prints what was requested, and appends to the log.
func report(opt Options, config *Config, out *launch.Outcome) {
	var b strings.Builder
	what := strings.Join(opt.Command, " ")
	if out.Passed != "" {
		fmt.Fprintf(&b, "run as it is: %s\n", out.Passed)
	}
	for _, s := range out.Steps {
		if out.Passed != "" {
			break
		}
		fmt.Fprintf(&b, "%s: %s", s.Target, s.State)
		if s.Why != "" {
			fmt.Fprintf(&b, ": %s", s.Why)
		}
		if s.Time > 0 {
			fmt.Fprintf(&b, " (%.3f s)", s.Time.Seconds())
		}
		b.WriteByte('\n')
	}
	if opt.Explain {
		for line := range strings.Lines(b.String()) {
			fmt.Fprintf(opt.Stderr, "offload launch: %s", printable.Text(line))
		}
	}
	if opt.ShowKey && out.Passed == "" {
		for _, s := range out.Steps {
			fmt.Fprintf(opt.Stdout, "%s\t%s\t%s\n", cmp.Or(s.Key, "none"), s.State, s.Target)
		}
	}
	if config.Launch.Log == "" {
		return
	}
	if f, err := os.OpenFile(config.Launch.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666); err == nil {
		fmt.Fprintf(f, "%s\n\t%s\n", what, strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n", "\n\t"))
		f.Close()
	}
}

// Find returns the path of a program.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}
