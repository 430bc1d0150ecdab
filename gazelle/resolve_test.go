package offload

import (
	"testing"

	"github.com/bazelbuild/bazel-gazelle/config"
	"github.com/bazelbuild/bazel-gazelle/resolve"
	"github.com/bazelbuild/bazel-gazelle/rule"
	"github.com/google/go-cmp/cmp"
)

// TestCrossResolve asks for headers as the extension for C++ does.
func TestCrossResolve(t *testing.T) {
	file, err := rule.LoadData("BUILD.bazel", "math", []byte(`
hip_library(name = "gemm", hdrs = ["gemm.h"])
openmp_library(name = "solve", hdrs = ["solve.h"])
hip_code_objects(name = "kernels", hdrs = ["kernels.h"])
`))
	if err != nil {
		t.Fatal(err)
	}
	l, c := NewLanguage(), config.New()
	index := resolve.NewRuleIndex(func(*rule.Rule, string) resolve.Resolver { return l }, l)
	for _, r := range file.Rules {
		index.AddRule(c, r, file)
	}
	index.Finish()

	for header, want := range map[string][]string{
		"math/gemm.h":    {"//math:gemm"},
		"math/solve.h":   {"//math:solve"},
		"math/kernels.h": nil,
		"gemm.h":         nil,
	} {
		var got []string
		for _, result := range index.FindRulesByImportWithConfig(c, resolve.ImportSpec{Lang: ccLanguage, Imp: header}, ccLanguage) {
			got = append(got, result.Label.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", header, diff)
		}
	}
}
