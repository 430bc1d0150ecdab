package reapi

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	capabilitiesMethod = "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities"
	executeMethod      = "/build.bazel.remote.execution.v2.Execution/Execute"

	// maxMessage is far above what Bazel sends in one message.
	maxMessage = 256 << 20
)

// rawCodec leaves messages as the bytes they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("not a raw message: %T", v)
	}
	return *message, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("not a raw message: %T", v)
	}
	*message = append([]byte(nil), data...)
	return nil
}

func (rawCodec) Name() string { return "proto" }

// pass hands a call of any method on to the backend, and its answers back.
func (s *Server) pass(_ any, from grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(from)
	if !ok {
		return status.Error(codes.Internal, "call without a method")
	}
	if method == executeMethod {
		s.executions.Add(1)
	}
	ctx, cancel := context.WithCancel(from.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md.Copy())
	}
	to, err := s.backend.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		if err := forward(from, to); err != nil {
			cancel()
			return
		}
		to.CloseSend()
	}()
	for {
		var message []byte
		if err := to.RecvMsg(&message); err != nil {
			from.SetTrailer(to.Trailer())
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if method == capabilitiesMethod {
			message = announceOldest(message)
		}
		if err := from.SendMsg(&message); err != nil {
			return err
		}
	}
}

// forward hands the caller's messages on until there are no more.
func forward(from grpc.ServerStream, to grpc.ClientStream) error {
	for {
		var message []byte
		if err := from.RecvMsg(&message); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := to.SendMsg(&message); err != nil {
			// The reason comes from RecvMsg.
			return nil
		}
	}
}

// announceOldest makes a ServerCapabilities say that it takes API version 2.0 and up. A field that follows another of
// its number is merged over it, so low_api_version = {major: 2, minor: 0} is put at the end.
func announceOldest(capabilities []byte) []byte {
	const lowAPIVersion, major, minor = 4, 1, 2
	var version []byte
	version = protowire.AppendVarint(protowire.AppendTag(version, major, protowire.VarintType), 2)
	version = protowire.AppendVarint(protowire.AppendTag(version, minor, protowire.VarintType), 0)
	out := append([]byte(nil), capabilities...)
	out = protowire.AppendTag(out, lowAPIVersion, protowire.BytesType)
	return protowire.AppendBytes(out, version)
}
