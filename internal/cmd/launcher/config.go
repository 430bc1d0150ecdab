package launcher

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/launch"
	"github.com/rules-offload/rules_offload/internal/launch/slots"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/sizes"
)

// FileName is the name of a configuration file.
const FileName = "offload.toml"

// A Config is the configuration of the cache, as a file has it. Relative paths in a file are relative to its directory.
type Config struct {
	Cache  CacheConfig  `toml:"cache"`
	Remote RemoteConfig `toml:"remote"`
	Launch LaunchConfig `toml:"launch"`
}

// A CacheConfig describes the directory of results, and what is in keys.
type CacheConfig struct {
	// Dir is the directory.
	Dir string `toml:"dir"`
	// Size is its largest size, see package sizes; "" for the default.
	Size string `toml:"size"`
	// ReadOnly stores nothing in it.
	ReadOnly bool `toml:"read_only"`
	// BaseDir is the directory below which paths are relative in keys, "" for none.
	BaseDir string `toml:"base_dir"`
	// SharedNames leaves the name of the output out of the names of compilation units.
	SharedNames bool `toml:"shared_names"`

	limit int64
}

// A RemoteConfig describes a server that several machines share.
type RemoteConfig struct {
	// URL is its address, "" for none: grpc://, grpcs://, unix:, http:// or https://.
	URL string `toml:"url"`
	// Instance is the instance name of the Remote Execution API.
	Instance string `toml:"instance"`
	// ReadOnly stores nothing on it.
	ReadOnly bool `toml:"read_only"`
	// Timeout is the longest time for a call, such as "5s".
	Timeout string `toml:"timeout"`
	// Headers are sent with each call.
	Headers map[string]string `toml:"headers"`
	// Certificate, ClientCertificate and ClientKey are files for TLS.
	Certificate       string `toml:"certificate"`
	ClientCertificate string `toml:"client_certificate"`
	ClientKey         string `toml:"client_key"`
	// CredentialHelper is a program with the protocol of Bazel's --credential_helper.
	CredentialHelper string `toml:"credential_helper"`

	timeout time.Duration
}

// A LaunchConfig describes offload launch.
type LaunchConfig struct {
	// Disable runs every command as it is.
	Disable bool `toml:"disable"`
	// Next is a launcher for commands that run as they are, with its arguments.
	Next string `toml:"next"`
	// Log is a file to which each call appends what it did, "" for none.
	Log string `toml:"log"`
}

// defaultTimeout is the longest time for a call of a server.
const defaultTimeout = 5 * time.Second

// Load returns the configuration for a directory: that of the user's file, of the next offload.toml in the directory and those
// above it, and of the environment. The latter ones have priority.
func Load(dir string, lookup func(string) (string, bool)) (*Config, error) {
	c := &Config{}
	if user, err := os.UserConfigDir(); err == nil {
		if err := c.read(filepath.Join(user, "offload", FileName)); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for above := dir; ; above = filepath.Dir(above) {
		name := filepath.Join(above, FileName)
		if _, err := os.Stat(name); err == nil {
			if err := c.read(name); err != nil {
				return nil, err
			}
			break
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	if err := c.environment(dir, lookup); err != nil {
		return nil, err
	}
	if c.Cache.Dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no directory for the cache: %w; set OFFLOAD_CACHE", err)
		}
		c.Cache.Dir = filepath.Join(base, "offload")
	}
	return c, nil
}

// read reads a file, if there is one.
func (c *Config) read(name string) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	decoder := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	err = decoder.Decode(c)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		row, _ := unknown.Errors[0].Position()
		return fmt.Errorf("%s:%d: unknown setting %s; see docs/howto/cmake.md", name, row, strings.Join(unknown.Errors[0].Key(), "."))
	case errors.As(err, &wrong):
		row, _ := wrong.Position()
		return fmt.Errorf("%s:%d: %w", name, row, err)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return c.complete(name, filepath.Dir(name))
}

// complete resolves paths, and reads sizes and times. where names the source of the values.
func (c *Config) complete(where, dir string) (err error) {
	for _, path := range []*string{&c.Cache.Dir, &c.Cache.BaseDir, &c.Launch.Log, &c.Remote.Certificate, &c.Remote.ClientCertificate, &c.Remote.ClientKey} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	if c.Cache.Size != "" {
		if c.Cache.limit, err = sizes.Parse(c.Cache.Size); err == nil && c.Cache.limit == 0 {
			err = fmt.Errorf("found %q, expected more than 0 bytes", c.Cache.Size)
		}
		if err != nil {
			return fmt.Errorf("%s: size of the cache: %w", where, err)
		}
	}
	if c.Remote.Timeout != "" {
		if c.Remote.timeout, err = time.ParseDuration(c.Remote.Timeout); err != nil || c.Remote.timeout <= 0 {
			return fmt.Errorf("%s: timeout of the remote cache: found %q, expected a time such as 5s", where, c.Remote.Timeout)
		}
	}
	if url := c.Remote.URL; url != "" {
		switch scheme, _, _ := strings.Cut(url, ":"); scheme {
		case "grpc", "grpcs", "http", "https", "unix":
		default:
			return fmt.Errorf("%s: URL of the remote cache: found %q, expected grpc://, grpcs://, unix:, http:// or https://", where, url)
		}
	}
	return nil
}

// environment reads the variables.
func (c *Config) environment(dir string, lookup func(string) (string, bool)) (err error) {
	for _, v := range []struct {
		name string
		to   *string
	}{
		{"OFFLOAD_CACHE", &c.Cache.Dir}, {"OFFLOAD_CACHE_SIZE", &c.Cache.Size}, {"OFFLOAD_BASE_DIR", &c.Cache.BaseDir}, {"OFFLOAD_LAUNCH_LOG", &c.Launch.Log}, {"OFFLOAD_LAUNCHER_NEXT", &c.Launch.Next},
		{"OFFLOAD_REMOTE_CACHE", &c.Remote.URL}, {"OFFLOAD_REMOTE_INSTANCE", &c.Remote.Instance}, {"OFFLOAD_REMOTE_TIMEOUT", &c.Remote.Timeout},
	} {
		if value, ok := lookup(v.name); ok {
			*v.to = value
			if err := c.complete(v.name, dir); err != nil {
				return err
			}
		}
	}
	for _, v := range []struct {
		name string
		to   *bool
	}{
		{"OFFLOAD_CACHE_READ_ONLY", &c.Cache.ReadOnly}, {"OFFLOAD_SHARED_NAMES", &c.Cache.SharedNames}, {"OFFLOAD_REMOTE_READ_ONLY", &c.Remote.ReadOnly}, {"OFFLOAD_LAUNCH_DISABLE", &c.Launch.Disable},
	} {
		value, ok := lookup(v.name)
		switch {
		case !ok:
		case value == "1" || value == "true":
			*v.to = true
		case value == "0" || value == "false" || value == "":
			*v.to = false
		default:
			return fmt.Errorf("%s: found %q, expected 1 or 0", v.name, value)
		}
	}
	return nil
}

// Local returns the directory of the cache.
func (c *Config) Local() *cache.Local {
	return &cache.Local{Dir: c.Cache.Dir, Limit: c.Cache.limit, ReadOnly: c.Cache.ReadOnly}
}

// remoteProgram is the program that connects with a server.
const remoteProgram = "offload-remote"

// findRemote returns the path of the program that connects with a server: beside this program, or in PATH.
func findRemote() (string, error) {
	if own, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(own); err == nil {
			own = real
		}
		path := filepath.Join(filepath.Dir(own), remoteProgram)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(remoteProgram)
	if err != nil {
		return "", fmt.Errorf("remote cache: %s is neither beside offload nor in PATH; results are stored on this machine only", remoteProgram)
	}
	return path, nil
}

// slots returns the limit of jobs: that of the job server of make or ninja, or the cores of the machine for all processes of the
// user.
func (c *Config) slots(memory int64) launch.Slots {
	dir := cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
	m := &slots.Machine{Dir: filepath.Join(dir, fmt.Sprintf("offload-slots-%d", os.Getuid())), Jobs: runtime.NumCPU(), Memory: memory}
	// A job server that this process cannot reach is one of an outer make, whose recipe did not begin with "+".
	if server, err := process.OpenJobserver(os.Getenv("MAKEFLAGS")); err == nil && server != nil {
		m.Server = server
	}
	return m
}
