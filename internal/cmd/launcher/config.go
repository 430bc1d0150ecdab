package launcher

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/launch"
	"github.com/rules-offload/rules_offload/internal/launch/slots"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/sizes"
)

// A Config is the configuration of the cache.
type Config struct {
	// Dir is the directory of the cache, Limit its largest size in bytes, 0 for the default.
	Dir   string
	Limit int64
	// Disabled runs every command as it is.
	Disabled bool
	// ReadOnly stores nothing.
	ReadOnly bool
	// BaseDir is the directory below which paths are relative in keys, "" for none.
	BaseDir string
	// SharedNames leaves the name of the output out of the names of compilation units.
	SharedNames bool
	// Next is a launcher for commands that are run as they are.
	Next []string
	// Log is a file to which each call appends a line, "" for none.
	Log string
}

// Load returns the configuration for a directory, from the environment.
func Load(dir string, lookup func(string) (string, bool)) (*Config, error) {
	c := &Config{}
	text := func(name string, to *string) {
		if value, ok := lookup(name); ok {
			*to = value
		}
	}
	var err error
	flag := func(name string, to *bool) {
		value, ok := lookup(name)
		switch {
		case !ok:
		case value == "1" || value == "true":
			*to = true
		case value == "0" || value == "false" || value == "":
			*to = false
		default:
			err = cmp.Or(err, fmt.Errorf("%s: found %q, expected 1 or 0", name, value))
		}
	}
	text("OFFLOAD_CACHE", &c.Dir)
	text("OFFLOAD_BASE_DIR", &c.BaseDir)
	text("OFFLOAD_LAUNCH_LOG", &c.Log)
	flag("OFFLOAD_LAUNCH_DISABLE", &c.Disabled)
	flag("OFFLOAD_CACHE_READ_ONLY", &c.ReadOnly)
	flag("OFFLOAD_SHARED_NAMES", &c.SharedNames)
	var next, size string
	text("OFFLOAD_LAUNCHER_NEXT", &next)
	c.Next = strings.Fields(next)
	text("OFFLOAD_CACHE_SIZE", &size)
	if size != "" && err == nil {
		if c.Limit, err = sizes.Parse(size); err == nil && c.Limit == 0 {
			err = fmt.Errorf("found %q, expected more than 0 bytes", size)
		}
		if err != nil {
			err = fmt.Errorf("OFFLOAD_CACHE_SIZE: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	if c.Dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no directory for the cache: %w; set OFFLOAD_CACHE", err)
		}
		c.Dir = filepath.Join(base, "offload")
	}
	for _, path := range []*string{&c.Dir, &c.BaseDir, &c.Log} {
		if *path != "" && !filepath.IsAbs(*path) {
			if *path, err = filepath.Abs(filepath.Join(dir, *path)); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// Local returns the directory of the cache.
func (c *Config) Local() *cache.Local {
	return &cache.Local{Dir: c.Dir, Limit: c.Limit, ReadOnly: c.ReadOnly}
}

// store returns the store of results.
func (c *Config) store(local *cache.Local) cache.Store { return local }

// slots returns the limit of jobs: that of the job server of make or ninja, or the cores of the machine for all processes of the
// user.
func (c *Config) slots(memory int64) launch.Slots {
	m := &slots.Machine{Dir: filepath.Join(os.TempDir(), fmt.Sprintf("offload-slots-%d", os.Getuid())), Jobs: runtime.NumCPU(), Memory: memory}
	// A job server that this process cannot reach is one of an outer make, whose recipe did not begin with "+".
	if server, err := process.OpenJobserver(os.Getenv("MAKEFLAGS")); err == nil && server != nil {
		m.Server = server
	}
	return m
}
