package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/cmd/verb"
)

const (
	// memoryVariable is the environment variable with the limit of memory of the process.
	memoryVariable = "OFFLOAD_MAX_MEMORY"
	// mostByDefault is the largest default limit, in bytes. It is bounded because parallel
	// processes do not share a limit.
	mostByDefault = 4 << 30
	// baseMemory is what the process takes besides its budget, in bytes.
	baseMemory = 64 << 20
	// streamShare is the part of the limit that standard input may take, twice.
	streamShare = 4
)

// newBudget returns a budget with all cores and a limit of memory in bytes. 0 means the limit
// of the environment, or else of the machine. Messages of its errors end with raise.
func newBudget(limit int64, raise string) (*budget.Budget, error) {
	if text := os.Getenv(memoryVariable); limit == 0 && text != "" {
		var err error
		if limit, err = verb.ParseMemory(text); err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", memoryVariable, err)
		}
	}
	// To find the limit of the machine, and to stop all threads for each of the two settings, takes a
	// third of the time of a small call.
	var b *budget.Budget
	b = budget.NewLazy(runtime.GOMAXPROCS(0), func() int64 {
		if limit == 0 {
			available, space := availableMemory()
			if limit = min(available/2, mostByDefault); space && limit < mostByDefault {
				b.Raise = raiseSpace
			}
		}
		if os.Getenv("GOMEMLIMIT") == "" {
			// Released memory counts until it is collected.
			debug.SetMemoryLimit(limit + baseMemory)
		}
		deferCollection()
		return limit
	})
	b.Raise = raise
	return b, nil
}

// newSession returns a Session whose limit of streams is a part of its budget.
func newSession(config engine.Config) *engine.Session {
	s := engine.New(config)
	s.Files().MaxStream = func() int64 { return config.Budget.Memory() / streamShare }
	return s
}

// firstCollection is the heap size of the first garbage collection, in percent of the runtime's
// 4 MiB. Few calls reach it.
const firstCollection = 800

// deferCollection defers the first garbage collection. Later ones are not affected.
func deferCollection() {
	usual := debug.SetGCPercent(firstCollection)
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}

// Advice on raising the limit of memory.
var (
	raiseByFlag     = "raise it with --max-memory or the environment variable " + memoryVariable
	raiseSpace      = "raise the limit of address space (ulimit -v)"
	raiseByVariable = "raise it with the environment variable " + memoryVariable
	raiseOfWorker   = "start the worker with --max-memory (Bazel's --worker_extra_flag)"
)

// workerMemory removes --max-memory from the arguments of a worker, and returns its value, 0
// for none.
func workerMemory(args []string) (rest []string, limit int64, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, ok := strings.Cut(arg, "=")
		switch {
		case name != "--max-memory" && name != "-max-memory":
			rest = append(rest, arg)
			continue
		case !ok && len(args) == 0:
			return nil, 0, fmt.Errorf("--max-memory: the size is missing")
		case !ok:
			value, args = args[0], args[1:]
		}
		if limit, err = verb.ParseMemory(value); err != nil {
			return nil, 0, fmt.Errorf("--max-memory: %w", err)
		}
	}
	return rest, limit, nil
}
