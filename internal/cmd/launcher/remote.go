package launcher

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/cache/pipe"
)

// pause is how long a server that failed is not asked again, by all processes that use the cache.
const pause = time.Minute

// store returns the store of results, and what ends it. Problems of a server go to warn, once.
func (c *Config) store(local *cache.Local, warn func(error)) (store cache.Store, end func()) {
	end = func() {}
	if c.Remote.URL == "" {
		return local, end
	}
	// The file is as old as the last failure.
	failure := filepath.Join(local.Dir, "remote-failed")
	if info, err := os.Stat(failure); err == nil && time.Since(info.ModTime()) < pause {
		return local, end
	}
	program, err := findRemote()
	if err != nil {
		warn(err)
		return local, end
	}
	client := &pipe.Client{Program: program, Timeout: cmp.Or(c.Remote.timeout, defaultTimeout) + time.Second, Options: map[string]any{
		"URL": c.Remote.URL, "Instance": c.Remote.Instance, "Headers": c.Remote.Headers, "Certificate": c.Remote.Certificate, "ClientCertificate": c.Remote.ClientCertificate,
		"ClientKey": c.Remote.ClientKey, "CredentialHelper": c.Remote.CredentialHelper, "Timeout": cmp.Or(c.Remote.timeout, defaultTimeout),
	}}
	failed := func(err error) {
		warn(errors.New("remote cache " + c.Remote.URL + ": " + err.Error() + "; it is not used for a minute"))
		if os.MkdirAll(local.Dir, 0o777) == nil {
			_ = os.WriteFile(failure, nil, 0o666)
		}
	}
	return &cache.Tiered{Local: local, Shared: client, SharedReadOnly: c.Remote.ReadOnly, Warn: failed}, client.Close
}
