package nearest

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"kitten", "sitting", 3}, {"list", "lsit", 2}, {"a", "b", 1},
	} {
		if got := Distance(test.a, test.b); got != test.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestName(t *testing.T) {
	names := []string{"bundle", "unbundle", "list", "link", "inspect"}
	for typed, want := range map[string]string{
		"lst": "list", "lsit": "list", "insp": "inspect", "unb": "unbundle", "li": "", "lnk": "link", "insepct": "inspect", "bundel": "bundle", "unbundl": "unbundle",
		"xyz": "", "": "", "b": "", "inspection-of-a-file": "", strings.Repeat("x", 1000): "",
	} {
		if got := Name(typed, names); got != want {
			t.Errorf("Name(%q) = %q, want %q", typed, got, want)
		}
	}
}
