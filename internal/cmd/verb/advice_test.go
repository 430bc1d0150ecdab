package verb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Messages name the flags that fix a failure, which the engine does not know.
func TestAdvice(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty.a": "!<arch>\n", "image": "\x7fELF", "text": "text"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := runIn(dir, "bundle", "--output", "b", "--entry", "host-x86_64-unknown-linux-gnu=", "--entry", "gfx942=image"); code != 0 {
		t.Fatal(stderr)
	}
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"prune --input empty.a --output out --keep gfx942", 1, "offload: empty.a: no device code in the file: found an archive; to copy it, add --ignore-missing\n"},
		{"prune --input b --output out --keep gfx90a", 1, "offload: b: no entry for gfx90a: found hipv4-amdgcn-amd-amdhsa--gfx942; name one of them, or add --ignore-missing\n"},
		{"extract --archive --image kind=hip b", 2, "offload extract: --archive requires file=OUTPUT in every --image. Try: offload extract --help\n"},
		{"check-device-deps text", 1, "offload: text: not LLVM bitcode; compile the device code with rdc = True\n"},
	} {
		t.Run(test.args, func(t *testing.T) {
			if code, _, stderr := runIn(dir, strings.Fields(test.args)...); code != test.code || stderr != test.want {
				t.Errorf("exit code %d, want %d; stderr:\n%swant:\n%s", code, test.code, stderr, test.want)
			}
		})
	}
}
