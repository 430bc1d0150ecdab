package verb

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/cmd/launcher"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/sizes"
)

// onCache returns a runner for the directory of the cache.
func onCache(flags *flagSet, run func(*invocation, *cache.Local) error) runner {
	flags.check(noOperands)
	return func(call *invocation) error {
		if call.Worker {
			return errors.New("cache: a worker has no cache")
		}
		config, err := launcher.Load(".", os.LookupEnv)
		if err != nil {
			return err
		}
		return run(call, config.Local())
	}
}

var cacheStatsVerb = verb{
	name:     "cache stats",
	summary:  "Prints the size of the cache of launch, and counts of hits, misses and commands that ran as they are.",
	examples: []example{{"Show how many steps were in the cache", "offload cache stats"}},
	flags: func(flags *flagSet) runner {
		return onCache(flags, func(call *invocation, local *cache.Local) error {
			size, files, err := local.Size()
			if err != nil {
				return err
			}
			counters, err := local.Counters()
			if err != nil {
				return err
			}
			call.print("directory: %s", local.Dir)
			call.print("size: %s in %d files", printable.Size(size), files)
			for _, name := range slices.Sorted(maps.Keys(counters)) {
				call.print("%8d %s", counters[name], name)
			}
			return nil
		})
	},
}

var cacheClearVerb = verb{
	name:     "cache clear",
	summary:  "Deletes all results and counts of the cache of launch.",
	examples: []example{{"Delete all results", "offload cache clear"}},
	flags: func(flags *flagSet) runner {
		return onCache(flags, func(_ *invocation, local *cache.Local) error { return local.Clear() })
	},
}

var cacheTrimVerb = verb{
	name:     "cache trim",
	summary:  "Deletes the least recently used results of the cache of launch.",
	examples: []example{{"Delete results until all files have less than 2 GiB", "offload cache trim --max-size 2GiB"}},
	flags: func(flags *flagSet) runner {
		var limit int64
		flags.Func("max-size", "the largest `size` of the cache after the call, such as 500MB or 2GiB (default: OFFLOAD_CACHE_SIZE, or 5GiB)", func(s string) (err error) {
			limit, err = sizes.Parse(s)
			return err
		})
		return onCache(flags, func(call *invocation, local *cache.Local) error {
			size, files, err := local.Trim(cmp.Or(limit, local.Limit, cache.DefaultLimit))
			if err != nil {
				return err
			}
			call.print("%s in %d files", printable.Size(size), files)
			return nil
		})
	},
}

var cacheVerifyVerb = verb{
	name:     "cache verify",
	summary:  "Checks all files of the cache of launch, and deletes damaged ones.",
	examples: []example{{"Check the cache", "offload cache verify"}},
	flags: func(flags *flagSet) runner {
		return onCache(flags, func(call *invocation, local *cache.Local) error {
			checked, damaged, err := local.Verify()
			if err != nil {
				return err
			}
			call.print("%d files are intact", checked-damaged)
			if damaged > 0 {
				return fmt.Errorf("%s: %d damaged files were deleted; check the disk", local.Dir, damaged)
			}
			return nil
		})
	},
}
