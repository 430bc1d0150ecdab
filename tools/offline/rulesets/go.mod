// The rulesets of the offline root, fetched from the Go module proxy with the sums of go.sum.
// No Go code: tools/offline/kit.sh runs `go mod download` here.
module github.com/rules-offload/rules_offload/tools/offline/rulesets

go 1.26.0

require (
	github.com/bazelbuild/bazel-gazelle v0.47.0
	github.com/bazelbuild/rules_go v0.60.0
)
