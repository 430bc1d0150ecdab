package sizes

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "4096": 4096, "4096B": 4096, "100MB": 100e6, "100mb": 100e6, "1GiB": 1 << 30, "1gib": 1 << 30, "1 GiB": 1 << 30,
		"1.5KiB": 1536, "2K": 2048, "2M": 2 << 20, "2G": 2 << 30, "2T": 2 << 40, "3KB": 3000, "8192TiB": 1 << 53, "1TB": 1e12,
		"9007199254740991": 1<<53 - 1,
	} {
		if got, err := Parse(s); err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"":                       `found "", expected a size such as 4096, 100MB or 1GiB`,
		"big":                    `found "big", expected a size`,
		"-1":                     `found "-1", expected a size`,
		"1e3":                    `found "1e3", expected a size`,
		"0x10":                   `found "0x10", expected a size`,
		"1.2.3":                  `found "1.2.3", expected a size`,
		".5GiB":                  `found ".5GiB", expected a size`,
		"GiB":                    `found "GiB", expected a size`,
		"1PiB":                   `found "1PiB", expected a size`,
		"1BK":                    `found "1BK", expected a size`,
		"1.5":                    `found "1.5", expected a whole number of bytes`,
		"8193TiB":                `found "8193TiB", expected at most 8192TiB`,
		"99999999999999999999":   `found "99999999999999999999", expected at most 8192TiB`,
		strings.Repeat("9", 400): "expected at most 8192TiB",
	} {
		if got, err := Parse(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %d, %v, want %s", s, got, err, want)
		}
	}
}
