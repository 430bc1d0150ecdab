package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/target"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := startProgress(&out)
	p.show(time.Second)
	if out.Len() > 0 {
		t.Errorf("%q before anything is known", out.String())
	}
	dir := t.TempDir()
	id, err := target.Parse("hip-amdgcn-amd-amdhsa--gfx942")
	if err != nil {
		t.Fatal(err)
	}
	s := engine.New(engine.Config{Dir: dir, Stdin: strings.NewReader(strings.Repeat("x", 3_000_000)), Budget: budget.New(1, 1<<20), Meter: &p.meter})
	if _, err := s.Bundle(t.Context(), engine.BundleOptions{Type: "bc", Align: 1, Output: "out", Entries: []engine.BundleEntry{{Target: id, Input: "-"}}}); err != nil {
		t.Fatal(err)
	}
	p.show(2 * time.Second)
	if got, want := out.String(), clearLine+" 99 %  3 of 3 MB  2 MB/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	out.Reset()
	p.Write([]byte("an error\n"))
	p.Write([]byte("another\n"))
	p.end()
	if got, want := out.String(), clearLine+"an error\nanother\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
