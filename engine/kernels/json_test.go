package kernels

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// standard returns the JSON that encoding/json makes.
func standard(t *testing.T, k *Kernel) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(k); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func full() *Kernel {
	n := func(v int64) *int64 { return &v }
	yes, mode := true, "generic-spmd"
	return &Kernel{
		Image: 3, Members: []string{"a.o", "b\"\\"}, Section: ".hip_fatbin", ID: "hipv4-x", Arch: "gfx90a:xnack+", Name: "_Z4gemmPf", Demangled: "gemm<1, (char)'\\n'>(float*)",
		Version: n(6), CodeSize: n(1), SGPRs: n(2), VGPRs: n(3), AGPRs: n(4), SGPRSpills: n(5), VGPRSpills: n(6), Scratch: n(7), LDS: n(8), Kernarg: n(9),
		MaxWorkgroupSize: n(10), ReqdWorkgroup: &[3]int64{1, 2, 3}, WavefrontSize: n(64), DynamicStack: &yes, WGPMode: &yes, OMPMode: &mode,
		Occupancy: &Occupancy{WavesPerSIMD: 7, Max: 8, Limits: []string{"vgprs", "lds"}, Bounds: Bounds{VGPRs: 7, SGPRs: 8, Workgroup: 8, LDS: 7}},
		Sources:   []Source{{"/a\".hip", 30, []SourceLine{{1, 10}, {4000000000, 20}}}, {"", 1, []SourceLine{}}},
	}
}

func TestAppendJSON(t *testing.T) {
	for name, k := range map[string]*Kernel{"all": full(), "nothing": {Members: []string{}}} {
		if diff := cmp.Diff(standard(t, k), string(k.AppendJSON(nil))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// FuzzAppendJSON checks that names are printed as encoding/json reads them back,
// and without control characters.
func FuzzAppendJSON(f *testing.F) {
	for _, s := range []string{"", "plain", "\x00\x1f\b\f\n\r\t\"\\/<>&", "\x7f\u0080\u009f\u00a0\u2028\u2029\ufffd\U0001f600", "\xff\xc2", "é漢"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k := &Kernel{Members: []string{s}, Name: s}
		got := k.AppendJSON(nil)
		var a, b Kernel
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatalf("%v in %s", err, got)
		}
		if err := json.Unmarshal([]byte(standard(t, k)), &b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("%q: -want +got:\n%s", s, diff)
		}
		for _, r := range string(got) {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q: %U is printed", s, r)
			}
		}
	})
}
