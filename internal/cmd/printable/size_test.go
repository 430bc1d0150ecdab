package printable

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1048575: "1.0 MiB", 1 << 20: "1.0 MiB",
		304_400_000: "290.3 MiB", 1 << 40: "1.0 TiB", -2048: "-2.0 KiB", -5: "-5 B", 1 << 62: "4194304.0 TiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	in := []string{"del\x7f and \u009b csi", "é\u0080", "plain", "\u00a0", "a\u202eb", "\u200b\u200f\u2066\u2069\ufeff", "\U000e0041", "😀\u3000", "\ufffd"}
	var out bytes.Buffer
	if err := json.NewEncoder(JSON(&out)).Encode(in); err != nil {
		t.Fatal(err)
	}
	if want := `["del\u007f and \u009b csi","é\u0080","plain","` + "\u00a0" + `","a\u202eb","\u200b\u200f\u2066\u2069\ufeff","\udb40\udc41","😀` + "\u3000\",\"\ufffd\"]\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	var back []string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	for i := range in {
		if back[i] != in[i] {
			t.Errorf("read back %q, want %q", back[i], in[i])
		}
	}
}
