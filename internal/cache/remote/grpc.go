package remote

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rules-offload/rules_offload/internal/cache"
)

// grpcStore is a server of the Remote Execution API.
type grpcStore struct {
	connection *grpc.ClientConn
	opt        Options
}

// Methods of the Remote Execution API.
const (
	getActionResult    = "/build.bazel.remote.execution.v2.ActionCache/GetActionResult"
	updateActionResult = "/build.bazel.remote.execution.v2.ActionCache/UpdateActionResult"
	findMissingBlobs   = "/build.bazel.remote.execution.v2.ContentAddressableStorage/FindMissingBlobs"
	batchUpdateBlobs   = "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchUpdateBlobs"
	byteStreamRead     = "/google.bytestream.ByteStream/Read"
	byteStreamWrite    = "/google.bytestream.ByteStream/Write"
)

const (
	// smallBlob is the largest blob in a batch, in bytes: messages are limited to 4 MiB.
	smallBlob = 1 << 20
	// chunk is the size of the parts of larger blobs, in bytes.
	chunk = 512 << 10
	// maxMessage is the largest message that is read, in bytes.
	maxMessage = 16 << 20
)

// codec passes messages as they are.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func openGRPC(opt Options) (cache.Store, error) {
	target, transport := opt.URL, insecure.NewCredentials()
	if address, ok := strings.CutPrefix(opt.URL, "grpc://"); ok {
		target = "dns:///" + address
	}
	if address, ok := strings.CutPrefix(opt.URL, "grpcs://"); ok {
		config, err := tlsConfig(opt)
		if err != nil {
			return nil, err
		}
		target, transport = "dns:///"+address, credentials.NewTLS(config)
	}
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(transport), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	return &grpcStore{connection, opt}, nil
}

// context returns the context of a call.
func (s *grpcStore) context(ctx context.Context) (context.Context, context.CancelFunc) {
	for name, value := range s.opt.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(name), value)
	}
	return context.WithTimeout(ctx, s.opt.Timeout)
}

// request returns a message that begins with the instance name.
func (s *grpcStore) request() []byte {
	if s.opt.Instance == "" {
		return nil
	}
	return cache.AppendMessage(nil, 1, []byte(s.opt.Instance))
}

// resource returns a name of the byte stream.
func (s *grpcStore) resource(name string) string {
	if s.opt.Instance == "" {
		return name
	}
	return s.opt.Instance + "/" + name
}

func (s *grpcStore) call(ctx context.Context, method string, request []byte) (reply []byte, err error) {
	ctx, cancel := s.context(ctx)
	defer cancel()
	err = s.connection.Invoke(ctx, method, &request, &reply)
	return reply, err
}

// Result implements cache.Store.
func (s *grpcStore) Result(ctx context.Context, action cache.Digest) (*cache.Result, error) {
	request := cache.AppendMessage(s.request(), 2, cache.AppendDigest(nil, action))
	reply, err := s.call(ctx, getActionResult, request)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return cache.ParseResult(reply)
}

// Blob implements cache.Store.
func (s *grpcStore) Blob(ctx context.Context, digest cache.Digest) ([]byte, error) {
	if digest.Size == 0 {
		return checked([]byte{}, digest)
	}
	ctx, cancel := s.context(ctx)
	defer cancel()
	stream, err := s.connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, byteStreamRead)
	if err != nil {
		return nil, err
	}
	request := cache.AppendMessage(nil, 1, []byte(s.resource("blobs/"+digest.String())))
	if err := errors.Join(stream.SendMsg(&request), stream.CloseSend()); err != nil {
		return nil, err
	}
	var data []byte
	for {
		var reply []byte
		err := stream.RecvMsg(&reply)
		switch {
		case errors.Is(err, io.EOF):
			return checked(data, digest)
		case status.Code(err) == codes.NotFound:
			return nil, cache.ErrMissing
		case err != nil:
			return nil, err
		}
		err = cache.Fields(reply, func(field uint64, value []byte, _ uint64) error {
			if field == 10 {
				data = append(data, value...)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if int64(len(data)) > digest.Size {
			return nil, fmt.Errorf("blob %s: the server sent more", digest)
		}
	}
}

// Put implements cache.Store.
func (s *grpcStore) Put(ctx context.Context, action cache.Digest, result *cache.Result, blobs ...[]byte) error {
	missing, err := s.missing(ctx, blobs)
	if err != nil {
		return err
	}
	for _, data := range blobs {
		digest := cache.DigestOf(data)
		if !missing[digest] {
			continue
		}
		if len(data) > smallBlob {
			err = s.write(ctx, digest, data)
		} else {
			err = s.update(ctx, digest, data)
		}
		if err != nil {
			return err
		}
	}
	request := cache.AppendMessage(s.request(), 2, cache.AppendDigest(nil, action))
	_, err = s.call(ctx, updateActionResult, cache.AppendMessage(request, 3, result.Marshal()))
	return err
}

// missing returns the blobs that the server does not have.
func (s *grpcStore) missing(ctx context.Context, blobs [][]byte) (map[cache.Digest]bool, error) {
	request := s.request()
	for _, data := range blobs {
		request = cache.AppendMessage(request, 2, cache.AppendDigest(nil, cache.DigestOf(data)))
	}
	reply, err := s.call(ctx, findMissingBlobs, request)
	if err != nil {
		return nil, err
	}
	missing := map[cache.Digest]bool{}
	err = cache.Fields(reply, func(field uint64, value []byte, _ uint64) error {
		if field != 2 {
			return nil
		}
		d, err := cache.ParseDigestMessage(value)
		missing[d] = true
		return err
	})
	return missing, err
}

// update uploads a small blob.
func (s *grpcStore) update(ctx context.Context, digest cache.Digest, data []byte) error {
	blob := cache.AppendMessage(nil, 1, cache.AppendDigest(nil, digest))
	blob = cache.AppendMessage(blob, 2, data)
	reply, err := s.call(ctx, batchUpdateBlobs, cache.AppendMessage(s.request(), 2, blob))
	if err != nil {
		return err
	}
	return cache.Fields(reply, func(field uint64, response []byte, _ uint64) error {
		if field != 1 {
			return nil
		}
		return cache.Fields(response, func(field uint64, value []byte, _ uint64) error {
			if field != 2 {
				return nil
			}
			return cache.Fields(value, func(field uint64, _ []byte, code uint64) error {
				if field == 1 && code != 0 {
					return fmt.Errorf("blob %s: the server answered with code %d", digest, code)
				}
				return nil
			})
		})
	})
}

// write uploads a large blob.
func (s *grpcStore) write(ctx context.Context, digest cache.Digest, data []byte) error {
	ctx, cancel := s.context(ctx)
	defer cancel()
	stream, err := s.connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, byteStreamWrite)
	if err != nil {
		return err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	name := s.resource(fmt.Sprintf("uploads/%x-%x-%x-%x-%x/blobs/%s", id[:4], id[4:6], id[6:8], id[8:10], id[10:], digest))
	for offset := 0; offset < len(data); offset += chunk {
		part := data[offset:min(offset+chunk, len(data))]
		request := cache.AppendMessage(nil, 1, []byte(name))
		if offset > 0 {
			request = binary.AppendUvarint(append(request, 2<<3), uint64(offset))
		}
		if offset+len(part) == len(data) {
			request = append(request, 3<<3, 1)
		}
		request = cache.AppendMessage(request, 10, part)
		if err := stream.SendMsg(&request); err != nil {
			if errors.Is(err, io.EOF) {
				break // the server has the blob already, or the reply has the error
			}
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	var reply []byte
	return stream.RecvMsg(&reply)
}
