// Bench compares this program with clang-offload-bundler of LLVM 22 on real
// bundles: ROCm libraries that Debian packages. It runs both in turn, checks
// every output with LLVM's tool, prints ratios, and writes docs/performance.md if all
// corpora were measured. The compression is also compared with the zstd encoder of
// klauspost/compress. With -compare it reports the ratios that fell.
//
//	./bazelw run //tests/bench
//	go run ./tests/bench
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == runnerArg {
		if err := serveRunner(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: runner:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == klauspostArg {
		if err := klauspost(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	dir, program        string
	corpora, operations *regexp.Regexp
	runs                int
	write, compare      bool
}

// parseFlags returns the options in the arguments of the process.
func parseFlags() (*options, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	opt := &options{}
	flag.StringVar(&opt.dir, "dir", filepath.Join(cache, "rules_offload-bench"), "`directory` for packages, bundles and outputs, about 10 GB")
	only := flag.String("corpora", "", "corpora whose names match this `pattern`")
	onlyOps := flag.String("operations", "", "operations whose names match this `pattern`")
	flag.IntVar(&opt.runs, "n", 7, "`runs` of each program; fewer if they are long")
	flag.BoolVar(&opt.write, "write", false, "write docs/performance.md even if only some corpora or operations were measured; the others keep their results")
	flag.BoolVar(&opt.compare, "compare", false, "write nothing; print the operations that are slower than in docs/performance.md, and fail if there are any")
	flag.StringVar(&opt.program, "offload", "", "the program, a `file`; built from the sources if it is missing")
	flag.Parse()
	if flag.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if opt.corpora, err = regexp.Compile(*only); err != nil {
		return nil, err
	}
	opt.operations, err = regexp.Compile(*onlyOps)
	return opt, err
}

func run(ctx context.Context) error {
	opt, err := parseFlags()
	if err != nil {
		return err
	}
	if err := root.Enter(llvm.Dir); err != nil {
		return err
	}
	project, err := projectDir()
	if err != nil {
		return err
	}
	runner, err := startRunner(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{runner: runner, self: self, dir: opt.dir, runs: max(opt.runs, 1), peer: filepath.Join(llvm.Dir, "clang-offload-bundler")}
	if err := os.MkdirAll(b.dir, 0o777); err != nil {
		return err
	}
	if err := b.findProgram(project, opt.program); err != nil {
		return err
	}

	pageName := filepath.Join(project, "docs", "performance.md")
	page, err := os.ReadFile(pageName)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	recorded := parsePage(string(page))
	results, all, err := b.measureAll(ctx, opt)
	if err != nil {
		return err
	}
	measured := sectionsOf(results)
	printLines("below the target", missed(results))
	if opt.compare {
		slower := fallen(recorded, measured)
		printLines("slower than recorded", slower)
		if n := len(slower); n > 0 {
			return fmt.Errorf("%d operations are slower than in docs/performance.md; measure again on an idle machine", n)
		}
		return nil
	}
	if (!all || opt.operations.String() != "") && !opt.write || len(results) == 0 {
		fmt.Println("\ndocs/performance.md stays as it is: not everything was measured.")
		return nil
	}
	return report(filepath.Dir(pageName), merge(recorded, measured))
}

// measureAll measures the corpora that opt selects. It reports whether these are all corpora.
func (b *bench) measureAll(ctx context.Context, opt *options) (results []result, all bool, err error) {
	all = true
	for i := range corpora {
		c := &corpora[i]
		if !opt.corpora.MatchString(c.name) {
			all = false
			continue
		}
		if why := c.tooLarge(b.dir); why != "" {
			fmt.Printf("skipping %s: %s\n", c.name, why)
			all = false
			continue
		}
		if err := c.prepare(ctx, b.dir); err != nil {
			return nil, false, fmt.Errorf("%s: %w", c.name, err)
		}
		measured, err := b.measure(ctx, c, opt.operations)
		results = append(results, measured...)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return results, all, nil
}

// printLines prints a list with a title, if there are lines.
func printLines(title string, lines []string) {
	if len(lines) > 0 {
		fmt.Printf("\n%s:\n  %s\n", title, strings.Join(lines, "\n  "))
	}
}

// projectDir returns the directory of the sources.
func projectDir() (string, error) {
	if dir := os.Getenv("BUILD_WORKSPACE_DIRECTORY"); dir != "" { // bazel run
		return dir, nil
	}
	return root.Project()
}

// findProgram sets b.offload, and b.ours and b.wrapper to it under the names of
// LLVM's tools.
func (b *bench) findProgram(project, program string) error {
	bin := filepath.Join(b.dir, "bin")
	if err := os.MkdirAll(bin, 0o777); err != nil {
		return err
	}
	b.ours = filepath.Join(bin, "clang-offload-bundler")
	// If Bazel built the program, it is in the directory of this one.
	program = cmp.Or(program, os.Getenv("OFFLOAD"))
	if program == "" {
		program = filepath.Join(bin, "offload")
		build := exec.Command("go", "build", "-o", program, "./cmd/offload")
		build.Dir, build.Stderr = project, os.Stderr
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := build.Run(); err != nil {
			return fmt.Errorf("go build ./cmd/offload: %w", err)
		}
	} else if os.Getenv("BUILD_WORKSPACE_DIRECTORY") != "" && !filepath.IsAbs(program) {
		program = filepath.Join("..", program) // below all runfiles; bazel run starts in the runfiles of the project
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	b.offload = program
	b.wrapper = filepath.Join(bin, "clang-linker-wrapper")
	for _, name := range []string{b.ours, b.wrapper} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(program, name); err != nil {
			return err
		}
	}
	return nil
}

// sentence joins a multi-line message into one line.
func sentence(b []byte) string { return strings.Join(strings.Fields(string(b)), " ") }
