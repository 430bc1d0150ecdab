package guard

import (
	"errors"
	"strings"
	"testing"
)

// TestOtherPanics has errors and panics that are no faults.
func TestOtherPanics(t *testing.T) {
	want := errors.New("own")
	if err := Faults(func() error { return want }); err != want {
		t.Error(err)
	}
	func() {
		defer func() {
			if v := recover(); v != "other" {
				t.Errorf("recovered %v", v)
			}
		}()
		Faults(func() error { panic("other") })
	}()
	err := Contain(func() error { panic("other") })
	var p *PanicError
	if !errors.As(err, &p) || err.Error() != "internal error: other" || !strings.Contains(string(p.Stack), "TestOtherPanics") {
		t.Errorf("%v", err)
	}
	var m map[string]int
	if err := Contain(func() error { m["x"] = 1; return nil }); !errors.As(err, &p) {
		t.Errorf("%v", err)
	}
}
