package kernels

import (
	"strings"
	"testing"
)

func TestDemangle(t *testing.T) {
	for name, want := range map[string]string{
		"_Z4gemmPf":                    "gemm(float*)",
		"_ZN3foo3barIiEEvT_":           "void foo::bar<int>(int)",
		"plain":                        "plain",
		"":                             "",
		"_Z":                           "_Z",
		"_Znothing":                    "_Znothing",
		"__omp_offloading_1_2_main_l3": "__omp_offloading_1_2_main_l3",
	} {
		if got := Demangle(name); got != want {
			t.Errorf("Demangle(%q) = %q, want %q", name, got, want)
		}
	}
}

// seq returns the n-th substitution.
func seq(n int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if n == 0 {
		return "S_"
	}
	s := ""
	for n--; ; n /= 36 {
		s = string(digits[n%36]) + s
		if n < 36 {
			return "S" + s + "_"
		}
	}
}

// Names that expand to very long ones, and very long names, have short results; without limits,
// some take minutes.
func TestDemangleHostile(t *testing.T) {
	doubling := "_Z1f4pairIiiE"
	for i := range 60 {
		doubling += "4pairI" + seq(i+1) + seq(i+1) + "E"
	}
	for name, mangled := range map[string]string{
		"doubling":  doubling,
		"pointers":  "_Z1f" + strings.Repeat("P", 8000) + "i",
		"functions": "_Z1f" + strings.Repeat("PF", 60) + "i",
		"nested":    "_ZN" + strings.Repeat("1a", 4000) + "E",
		"templates": "_Z1f" + strings.Repeat("1aI", 2700) + "i",
		"too long":  "_Z" + strings.Repeat("1a", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			got := Demangle(mangled)
			if len(got) > max(len(mangled), 1<<maxDemangledPow2) {
				t.Errorf("%d bytes", len(got))
			}
		})
	}
}
