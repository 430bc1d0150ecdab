package report

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"
)

// The content security policy names style and script by their hashes.
func TestHashes(t *testing.T) {
	for _, test := range []struct{ name, content, got string }{{"styleHash", style, styleHash}, {"scriptHash", script, scriptHash}} {
		sum := sha256.Sum256([]byte(test.content))
		if want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); test.got != want {
			t.Errorf("%s is %q: set it to %q", test.name, test.got, want)
		}
	}
}
