package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Goroutines and exported functions with a guard, or with a comment that says why they need none, pass; others
// are reported.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.go": `package p

func good() {
	go func() { guard.Contain(work) }()
	wg.Go(func() { err = Faults(work) })
	go own()
	// unguarded: it waits for a signal
	go func() { work() }()
	go t.other() // unguarded: a timer
	// unguarded: what it runs
	// has a guard of its own
	wg.Go(t.other)
	wg.Go()
}

func own() { debug.SetPanicOnFault(true); work() }

func (t) other() {}
`,
		"bad.go": `package p

func bad() {
	go func() { work() }()
	wg.Go(func() { work() })
	// unguarded:
	go t.other()

	// unguarded: too far away

	time.AfterFunc(1, t.other)
	x := func() { go unknown() }
}
`,
		"bad_test.go": "package p\nfunc f() { go work() }\n",
		"exported.go": `package p

func (s *Session) Guarded(ctx context.Context) (err error) {
	defer guard.Into(&err)()
	return s.read()
}

func Excused(c content.Content) error {
	// unguarded: it calls Guarded
	return nil
}

func (s *Session) Infallible() int { return 1 }

func unexported(c content.Content) error { return nil }

func (s *Session) Read() error { return s.read() }

func Copy(to io.Writer, parts ...content.Part) (int, error) { return 0, nil }

func Parse(c *Content) error {
	// unguarded:
	return nil
}
`,
		"internal/q/exported.go": "package q\n\nfunc Read(c content.Content) error { return nil }\n",
		"main/exported.go":       "package main\n\nfunc Read(c content.Content) error { return nil }\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	found, err := check([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range found {
		lines = append(lines, strings.SplitN(strings.TrimPrefix(f, dir+"/"), ": ", 2)[0])
	}
	if got, want := strings.Join(lines, " "), "bad.go:4 bad.go:5 bad.go:7 bad.go:11 bad.go:12 exported.go:17 exported.go:19 exported.go:21"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}
