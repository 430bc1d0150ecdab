package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/root"
)

var (
	fuzzTarget = regexp.MustCompile(`(?m)^(Fuzz\w+)$`)
	executions = regexp.MustCompile(`execs: (\d+)`)
)

// fuzz runs the fuzz targets of all packages, each for its share of the time. Go writes failing
// inputs to the testdata directories of the sources, to be committed.
func fuzz(ctx context.Context, c *campaign) error {
	project := os.Getenv("BUILD_WORKSPACE_DIRECTORY")
	if project == "" {
		var err error
		if project, err = root.Project(); err != nil {
			return err
		}
	}
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./engine/...", "./installed/...", "./cmd/...", "./worker/...", "./gazelle/...", "./internal/...")
	list.Dir = project
	packages, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	type target struct{ pkg, name string }
	var targets []target
	for _, pkg := range strings.Fields(string(packages)) {
		cmd := exec.CommandContext(ctx, "go", "test", "-list", "^Fuzz", pkg)
		cmd.Dir = project
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("go test -list %s: %w", pkg, err)
		}
		for _, m := range fuzzTarget.FindAllStringSubmatch(string(out), -1) {
			targets = append(targets, target{pkg, m[1]})
		}
	}
	deadline, _ := ctx.Deadline()
	for i, t := range targets {
		share := time.Until(deadline) / time.Duration(len(targets)-i)
		if share < time.Second {
			return nil
		}
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", share.Truncate(time.Second).String(), t.pkg)
		cmd.Dir = project
		out, err := cmd.CombinedOutput()
		n := int64(0)
		if all := executions.FindAllSubmatch(out, -1); len(all) > 0 {
			n, _ = strconv.ParseInt(string(all[len(all)-1][1]), 10, 64)
		}
		c.runs.Add(n)
		fmt.Printf("  %s %s: %d executions\n", strings.TrimPrefix(t.pkg, "github.com/rules-offload/rules_offload/"), t.name, n)
		if err != nil && ctx.Err() == nil {
			c.fault("%s %s: %s", t.pkg, t.name, lastLines(out, 12))
		}
	}
	return nil
}

// lastLines returns the last n lines of a text.
func lastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
