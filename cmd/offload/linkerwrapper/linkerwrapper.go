// Package linkerwrapper implements the command line of clang-linker-wrapper, which clang runs
// instead of the host linker to link device code. It accepts the options of LLVM 22 and 23.
package linkerwrapper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/cmd/offload/llvmcl"
	"github.com/rules-offload/rules_offload/cmd/offload/llvmwords"
	"github.com/rules-offload/rules_offload/cmd/offload/release"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/devicelink"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/linkcache"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

// Run runs a command line and returns its exit code.
func Run(ctx context.Context, call *command.Call) int {
	if err := run(ctx, call); err != nil {
		fmt.Fprintf(call.Stderr, "%s: error: %s\n", call.Name, message(err))
		return 1
	}
	return 0
}

// message returns an error as LLVM's tools write it.
func message(err error) string {
	var system *files.Error
	if errors.As(err, &system) {
		return fmt.Sprintf("'%s': %s", system.Name, system.Reason())
	}
	var link *engine.WrapError
	if errors.As(err, &link) {
		if words := llvmwords.Link(link); link.Err != nil {
			return words + ": " + link.Err.Error()
		} else {
			return words
		}
	}
	var place *images.PlaceError
	if words := llvmwords.Fault(err); words != "" && errors.As(err, &place) {
		return words + ": " + err.Error()
	}
	return err.Error()
}

func run(ctx context.Context, call *command.Call) error {
	args, err := llvmcl.Expand(call)
	if err != nil {
		return err
	}
	words, err := parse(args)
	if err != nil {
		return err
	}
	for _, w := range words {
		switch w.id {
		case optHelp, optHelpHidden:
			printHelp(call.Stdout, w.id == optHelpHidden)
			return nil
		case optVersion:
			r, err := release.FromEnv(call.LookupEnv)
			if err != nil {
				return err
			}
			fmt.Fprintf(call.Stdout, "Debian clang-linker-wrapper version %s (%s)\n", r.Version, r.Package)
			return nil
		}
	}
	w := &wrapper{call: call}
	if err := w.read(words); err != nil {
		return err
	}
	defer w.close()
	if slices.ContainsFunc(words, func(w word) bool {
		return (w.id == optMLLVM || w.id == optOffloadOpt) && (w.value() == "--help" || w.value() == "-help")
	}) {
		return w.llvmHelp(ctx)
	}
	return w.run(ctx)
}

// llvmHelp runs the clang of the device links to list its LLVM options.
func (w *wrapper) llvmHelp(ctx context.Context) error {
	clang, err := w.tools().find("clang")
	if err != nil {
		return err
	}
	process := devicelink.Process{Args: []string{clang, "-cc1", "-mllvm", "--help"}, Env: os.Environ(), Stdout: w.call.Stdout, Stderr: w.call.Stderr}
	return process.Run(ctx)
}

// wrapper is one call.
type wrapper struct {
	call *command.Call
	opt  engine.WrapLinkOptions

	search    []string // directories of libraries
	cudaPath  string
	sysroot   string
	canonical bool
	trace     *trace
	traceFile string
	jobs      string // the value of --wrapper-jobs
	hasJobs   bool
	jobserver *devicelink.Jobserver
}

func (w *wrapper) env(name string) string {
	value, _ := w.call.LookupEnv(name)
	return value
}

// read sets the options from the words of the command line.
func (w *wrapper) read(words []word) error {
	opt := &w.opt
	w.canonical = true
	opt.HostTriple = defaultTriple()
	wholeAll, granularity := false, 500
	// These options apply to words before and after them.
	for i := range words {
		switch word := &words[i]; word.id {
		case optSysroot:
			w.sysroot = word.value()
		case optHostTriple:
			opt.HostTriple = word.value()
		case optWholeArchiveAll:
			wholeAll = true
		}
	}
	for i := range words {
		if word := &words[i]; word.id == optLibraryPath || word.id == optCOFFLibraryPath {
			dir := word.value()
			if rest, ok := strings.CutPrefix(dir, "="); ok {
				dir = filepath.Join(w.sysroot, rest)
			}
			w.search = append(w.search, dir)
		}
	}
	whole, objectsAt := wholeAll, -1
	for i := range words {
		word := &words[i]
		opt.LinkerArgs = append(opt.LinkerArgs, word.host...)
		switch word.id {
		case optNone:
			if word.input {
				opt.Libraries = append(opt.Libraries, engine.WrapLibrary{Input: len(opt.Inputs)})
				opt.Inputs = append(opt.Inputs, engine.WrapInput{Name: w.input(word.host[0]), Whole: whole})
			}
		case optWholeArchiveOf:
			opt.Inputs = append(opt.Inputs, engine.WrapInput{Name: w.input(word.value()), Whole: true})
		case optLinkerPath:
			opt.Linker = word.value()
		case optDeviceLinker:
			opt.Device.Linker = append(opt.Device.Linker, word.value())
		case optDeviceCompiler:
			opt.Device.Compiler = append(opt.Device.Compiler, word.value())
		case optShouldExtract:
			opt.Extract = append(opt.Extract, word.values...)
		case optOverrideImage:
			kind, file, _ := strings.Cut(word.value(), "=")
			bits, _ := offloadbinary.ParseOffloadKind(kind)
			opt.Override = append(opt.Override, engine.WrapOverride{Kind: bits, File: file})
		case optEmitFatbinOnly:
			opt.FatbinOnly = true
		case optEmbedBitcode:
			opt.Device.EmbedBitcode = true
		case optCompress:
			opt.Compress = true
		case optCompressionLevel:
			opt.CompressionLevel = word.value()
		case optCUDAPath:
			w.cudaPath = word.value()
		case optJobs:
			w.jobs, w.hasJobs = word.value(), true
		case optSaveTemps:
			opt.SaveTemps, opt.Device.SaveTemps = true, true
		case optDryRun:
			opt.DryRun = true
		case optVerbose:
			opt.Verbose = true
		case optPrintModule:
			opt.PrintModule = true
		case optTimeTrace:
			w.traceFile = word.value()
		case optTimeTraceGranularity:
			if n, err := strconv.ParseUint(word.value(), 10, 31); err == nil {
				granularity = int(n)
			} else { // LLVM ignores it
				fmt.Fprintf(w.call.Stderr, "warning: --wrapper-time-trace-granularity=%s: expected a number of microseconds; using %d\n", word.value(), granularity)
			}
		case optMLLVM:
			opt.Device.LLVM = append(opt.Device.LLVM, devicelink.LLVMArg{Text: word.value(), Twice: true})
		case optOffloadOpt:
			opt.Device.LLVM = append(opt.Device.LLVM, devicelink.LLVMArg{Text: word.value()})
		case optNoCanonicalPrefixes:
			w.canonical = false
		case optOutput:
			opt.Output = word.value()
			objectsAt = len(opt.LinkerArgs)
		case optLibraryPath, optLibrary, optRPath:
			opt.Libraries = append(opt.Libraries, engine.WrapLibrary{Words: word.host})
		case optWholeArchive, optNoWholeArchive:
			whole = word.id == optWholeArchive || wholeAll
			name := "-Wl,--whole-archive"
			if word.id == optNoWholeArchive {
				name = "-Wl,--no-whole-archive"
			}
			opt.Libraries = append(opt.Libraries, engine.WrapLibrary{Words: []string{name}})
		case optRelocatable:
			opt.Relocatable = true
		}
		if word.id == optLibrary {
			name, err := w.library(word.value())
			if err != nil {
				return err
			}
			opt.Inputs = append(opt.Inputs, engine.WrapInput{Name: name, Whole: whole})
		}
	}
	if objectsAt < 0 { // LLVM drops the objects then
		objectsAt = len(opt.LinkerArgs)
	}
	opt.ObjectsAt = objectsAt
	if opt.Output == "" {
		opt.Output = "a.out"
		if w.windows() {
			opt.Output = "a.exe"
		}
	}
	if w.traceFile != "" {
		w.trace = newTrace(granularity)
		opt.Phase = w.trace.start
	}
	opt.Device.Output = opt.Output
	opt.Device.HostLLD = strings.HasSuffix(strings.TrimSuffix(opt.Linker, ".exe"), "lld")
	return w.openSlots()
}

// openSlots sets how many device links run at a time.
func (w *wrapper) openSlots() error {
	switch {
	case !w.hasJobs:
		w.opt.Slots = devicelink.Limit(runtime.GOMAXPROCS(0))
	case w.jobs == "jobserver":
		w.opt.Slots = devicelink.Limit(1)
		var err error
		makeflags, set := w.call.LookupEnv("MAKEFLAGS")
		w.jobserver, err = devicelink.OpenJobserver(makeflags)
		switch {
		case err != nil:
			fmt.Fprintf(w.call.Stderr, "Warning: jobserver client initialization failed: %v\n", err)
		case w.jobserver != nil:
			w.opt.Slots = w.jobserver
		case !set:
			fmt.Fprintln(w.call.Stderr, "Warning: failed to create jobserver client due to MAKEFLAGS environment variable not found")
		}
	default:
		// In any base that the prefix names, as LLVM reads numbers.
		n, err := strconv.ParseUint(w.jobs, 0, 31)
		if err != nil || n == 0 || strings.ContainsRune(w.jobs, '_') {
			return fmt.Errorf("--wrapper-jobs=%s: expected a positive integer or 'jobserver', got '%s'", w.jobs, w.jobs)
		}
		w.opt.Slots = devicelink.Limit(int(n))
	}
	return nil
}

func (w *wrapper) close() {
	if w.jobserver != nil {
		w.jobserver.Close()
	}
}

// library returns the file of an option -l.
func (w *wrapper) library(name string) (string, error) {
	names := []string{"lib" + name + ".so", "lib" + name + ".a"}
	if w.windows() { // as the linkers of MinGW
		names = []string{"lib" + name + ".dll.a", "lib" + name + ".a"}
	}
	if file, ok := strings.CutPrefix(name, ":"); ok {
		names = []string{file}
	} else if strings.HasSuffix(name, ".lib") {
		names = []string{name}
	}
	if path := w.inSearch(names...); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("unable to find library -l%s", name)
}

// inSearch returns the path of the first file of one of the names in the
// directories of libraries, "" for none.
func (w *wrapper) inSearch(names ...string) string {
	for _, dir := range w.search {
		for _, name := range names {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				return path
			}
		}
	}
	return ""
}

// input returns the file that a word of the command line names. For Windows, it searches for
// missing libraries in the directories of -libpath.
func (w *wrapper) input(name string) string {
	if !w.windows() || !strings.HasSuffix(strings.ToLower(name), ".lib") {
		return name
	}
	if _, err := os.Stat(name); err == nil {
		return name
	}
	if path := w.inSearch(name); path != "" {
		return path
	}
	return name
}

// windows reports whether the host link is for Windows.
func (w *wrapper) windows() bool { return target.ParseTriple(w.opt.HostTriple).OS == "windows" }

// run runs the command line.
func (w *wrapper) run(ctx context.Context) error {
	opt := &w.opt
	opt.Stdout, opt.Stderr = w.call.Stdout, w.call.Stderr
	tools := w.tools()
	opt.Find = tools.find
	opt.Fatbinary = tools.fatbinary
	release, err := w.release(tools)
	if err != nil {
		return err
	}
	opt.Device.Release = release
	opt.Env = os.Environ()
	if opt.Cache, err = w.cache(); err != nil {
		return err
	}
	opt.Temp = filepath.Join(os.TempDir(), "offload-dry-run")
	if opt.SaveTemps && release > 22 {
		opt.Kept = filepath.Dir(opt.Output)
	}
	if !opt.DryRun {
		temp, err := os.MkdirTemp("", "offload-link-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		opt.Temp = temp
	}
	err = w.call.Session.WrapLink(ctx, *opt)
	if w.trace != nil {
		err = errors.Join(err, w.trace.write(w.traceFile))
	}
	return err
}

// Environment variables for the cache of device links.
const (
	cacheVariable     = "OFFLOAD_CACHE"      // their directory
	cacheSizeVariable = "OFFLOAD_CACHE_SIZE" // their maximum size: 500M, 20G
)

// cache returns the store of results, nil for none.
func (w *wrapper) cache() (*linkcache.Store, error) {
	dir := w.env(cacheVariable)
	if dir == "" {
		return nil, nil
	}
	store := &linkcache.Store{Dir: dir}
	size := w.env(cacheSizeVariable)
	if size == "" {
		return store, nil
	}
	digits, shift := size, 0
	for i, unit := range "KMG" {
		if rest, ok := strings.CutSuffix(size, string(unit)); ok {
			digits, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return nil, fmt.Errorf("%s: found %q, expected a number of bytes such as 500M or 20G", cacheSizeVariable, size)
	}
	store.Limit = n << shift
	return store, nil
}

// defaultTriple is LLVM's for the machine that the program runs on.
func defaultTriple() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64-pc-linux-gnu"
	case "arm64":
		return "aarch64-unknown-linux-gnu"
	}
	return runtime.GOARCH + "-unknown-linux-gnu"
}

// tools finds programs.
type tools struct {
	dirs    []string
	suffix  string // of the release: -22
	cuda    string
	dryRun  bool
	pathEnv string
}

// tools returns the directories to search for LLVM's programs: those of the program, before and
// after resolving symbolic links, then PATH.
func (w *wrapper) tools() *tools {
	t := &tools{cuda: w.cudaPath, dryRun: w.opt.DryRun, pathEnv: w.env("PATH")}
	called := w.call.Name
	if !strings.ContainsRune(called, filepath.Separator) {
		called = lookPath(called, t.pathEnv)
	}
	if called != "" {
		// A name without a directory would be searched for on PATH.
		if absolute, err := filepath.Abs(called); err == nil {
			called = absolute
		}
		t.dirs = append(t.dirs, filepath.Dir(called))
		if real, err := filepath.EvalSymlinks(called); err == nil && w.canonical && filepath.Dir(real) != filepath.Dir(called) {
			t.dirs = append(t.dirs, filepath.Dir(real))
		}
	}
	if i := strings.LastIndexByte(w.call.Name, '-'); i > 0 {
		if number := w.call.Name[i+1:]; number != "" && strings.Trim(number, "0123456789") == "" {
			t.suffix = "-" + number
		}
	}
	return t
}

// find returns the path of a program of LLVM.
func (t *tools) find(name string) (string, error) {
	for _, dir := range t.dirs {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	names := []string{name}
	if t.suffix != "" {
		names = []string{name + t.suffix, name}
	}
	for _, name := range names {
		if path := lookPath(name, t.pathEnv); path != "" {
			return path, nil
		}
	}
	return t.missing(name)
}

// fatbinary returns the path of NVIDIA's program.
func (t *tools) fatbinary() (string, error) {
	const name = "fatbinary"
	if t.cuda != "" {
		if path := filepath.Join(t.cuda, "bin", name); executable(path) {
			return path, nil
		}
	}
	if path := lookPath(name, t.pathEnv); path != "" {
		return path, nil
	}
	return t.missing(name)
}

// missing handles a missing program: a dry run requires only its name.
func (t *tools) missing(name string) (string, error) {
	if t.dryRun {
		return name, nil
	}
	return "", fmt.Errorf("Unable to find '%s' in path", name)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// lookPath returns the path of a program in the directories of a PATH, "" if it is not found.
func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		if file := filepath.Join(dir, name); executable(file) {
			if !slices.Contains([]string{"/", "."}, file[:1]) {
				file = "./" + file
			}
			return file
		}
	}
	return ""
}
