// Offload-remote connects offload launch with a remote cache. offload launch starts it; it reads requests from standard
// input.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/cache/pipe"
	"github.com/rules-offload/rules_offload/internal/cache/remote"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "offload-remote: offload launch starts this program; it has no arguments")
		os.Exit(2)
	}
	ctx := context.Background()
	err := pipe.Serve(ctx, os.Stdin, os.Stdout, func(options []byte) (cache.Store, error) {
		var opt remote.Options
		if err := json.Unmarshal(options, &opt); err != nil {
			return nil, err
		}
		return remote.Open(ctx, opt)
	})
	if err != nil {
		os.Exit(1)
	}
}
