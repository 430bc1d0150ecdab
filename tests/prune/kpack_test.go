package prune

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/kpack"
)

// TestKpack splits files of many layouts, strips the host parts, and merges them again.
func TestKpack(t *testing.T) {
	t.Parallel()
	for i, l := range layouts(t) {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			b := build(t, l)
			all := b.run(t, b.path)
			scheme := []kpack.Scheme{kpack.Zstd, kpack.None}[i%2]
			opt := engine.KpackSplitOptions{
				Input: b.path, Output: filepath.Join(b.dir, "host"), Dir: filepath.Join(b.dir, "sub", ".kpack"), Group: "g", SplitSettings: engine.SplitSettings{Uncompressed: scheme == kpack.None, Level: 3, Verify: true},
			}
			report, err := session().KpackSplit(context.Background(), opt)
			if err != nil {
				t.Fatal(err)
			}
			if report.SearchPath != "sub/.kpack/g_@GFXARCH@.kpack" || report.KernelName != "host" || len(report.Archives) != len(archs) {
				t.Errorf("report: %+v", report)
			}
			var archives []string
			for _, a := range report.Archives {
				archives = append(archives, a.File)
			}
			b.checkHost(t, all)
			// The second call changes nothing.
			before := read(t, archives[0])
			opt.Append = true
			if _, err := session().KpackSplit(context.Background(), opt); err != nil || !bytes.Equal(before, read(t, archives[0])) {
				t.Errorf("the same code is added: %v", err)
			}
			if problems, err := session().KpackVerify(context.Background(), append([]string{opt.Output}, archives...)); err != nil {
				t.Errorf("verify: %v, %v", err, problems)
			}
			for _, host := range []string{"host", "host-strip", "host-llvm-strip"} {
				for _, compress := range []bool{false, true} {
					merged := filepath.Join(b.dir, host+"-merged")
					err := session().KpackMerge(context.Background(), engine.KpackMergeOptions{
						Input: filepath.Join(b.dir, host), Output: merged, Archives: archives, MergeSettings: engine.MergeSettings{Compress: compress, Level: 3, Verify: true},
					})
					if err != nil {
						t.Fatal(err)
					}
					got := b.run(t, merged)
					switch {
					case compress && strings.Count(got, "compressed") != strings.Count(all, "bundle index"):
						t.Errorf("%s, compressed: printed\n%s", host, got)
					case !compress && got != all:
						t.Errorf("%s: printed\n%sexpected\n%s", host, got, all)
					}
					b.survives(t, filepath.Base(merged), got)
				}
			}
		})
	}
}

// checkHost checks the host part of a split file.
func (b *built) checkHost(t *testing.T, all string) {
	t.Helper()
	host := filepath.Join(b.dir, "host")
	data := read(t, host)
	for _, f := range elfcheck.Check(data) {
		if !slices.ContainsFunc(elfcheck.Check(read(t, b.path)), func(o elfcheck.Finding) bool { return o.Rule == f.Rule }) {
			t.Errorf("host: %v", f)
		}
	}
	if got, was := warnings(t, host), warnings(t, b.path); got != was {
		t.Errorf("readers complain\n%s\nbefore\n%s", got, was)
	}
	got := b.run(t, host)
	count := strings.Count(all, "bundle index")
	for i := range count {
		if want := "marker 82 index " + string(rune('0'+i)); !strings.Contains(got, want) {
			t.Errorf("printed\n%sexpected %q", got, want)
		}
	}
	if !strings.Contains(got, "intact") {
		t.Errorf("printed\n%s", got)
	}
	b.survives(t, "host", got)
	if _, err := session().KpackSplit(context.Background(), engine.KpackSplitOptions{
		Input: host, Output: filepath.Join(b.dir, "x"), Dir: filepath.Join(b.dir, "new"), Group: "g", SplitSettings: engine.SplitSettings{Uncompressed: true},
	}); err == nil || !strings.Contains(err.Error(), "already split") {
		t.Errorf("splitting again: %v", err)
	}
	for _, name := range []string{"x", "new"} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); err == nil {
			t.Errorf("%s is left after a failure", name)
		}
	}
}
