package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/cache"
)

// httpStore is a server with the layout of Bazel's HTTP cache: URL/ac/HASH and URL/cas/HASH.
type httpStore struct {
	url     string
	headers map[string]string
	client  *http.Client
	timeout time.Duration
}

func openHTTP(opt Options) (cache.Store, error) {
	config, err := tlsConfig(opt)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return &httpStore{strings.TrimSuffix(opt.URL, "/"), opt.Headers, &http.Client{Transport: transport}, opt.Timeout}, nil
}

// maxBody is the largest content that is read, in bytes.
const maxBody = 8 << 30

// do sends a request. It returns nil for a file that is not found.
func (s *httpStore) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range s.headers {
		request.Header.Set(name, value)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusNotFound:
		return nil, nil
	case response.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s: HTTP status %s", s.url, response.Status)
	}
	return append([]byte{}, data...), nil
}

// Result implements cache.Store.
func (s *httpStore) Result(ctx context.Context, action cache.Digest) (*cache.Result, error) {
	data, err := s.do(ctx, http.MethodGet, "/ac/"+action.Hex(), nil)
	if data == nil || err != nil {
		return nil, err
	}
	return cache.ParseResult(data)
}

// Blob implements cache.Store.
func (s *httpStore) Blob(ctx context.Context, digest cache.Digest) ([]byte, error) {
	data, err := s.do(ctx, http.MethodGet, "/cas/"+digest.Hex(), nil)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, cache.ErrMissing
	}
	return checked(data, digest)
}

// Put implements cache.Store.
func (s *httpStore) Put(ctx context.Context, action cache.Digest, result *cache.Result, blobs ...[]byte) error {
	for _, data := range blobs {
		if _, err := s.do(ctx, http.MethodPut, "/cas/"+cache.DigestOf(data).Hex(), data); err != nil {
			return err
		}
	}
	_, err := s.do(ctx, http.MethodPut, "/ac/"+action.Hex(), result.Marshal())
	return err
}
