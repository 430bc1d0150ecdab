// Package workerproto holds the messages of Bazel's persistent worker
// protocol, wire-compatible with Bazel's worker_protocol.proto.
//
// The Go code is generated and checked in, so that neither go build nor bazel
// build needs a protocol compiler. After a change of the .proto, run go
// generate with protoc on PATH (any release since 27, the first with editions).
package workerproto

//go:generate sh -c "go build -o .protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go && protoc --plugin=protoc-gen-go=.protoc-gen-go --go_out=. --go_opt=paths=source_relative worker_protocol.proto; rm -f .protoc-gen-go"
