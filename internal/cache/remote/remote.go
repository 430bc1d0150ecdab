// Package remote stores results on a server: one of the Remote Execution API by gRPC, or one with Bazel's layout by HTTP. Only
// the program offload-remote imports it, because its libraries make the start of a program slow.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/cache"
)

// Options describe a server.
type Options struct {
	// URL is grpc://HOST:PORT, grpcs://HOST:PORT, unix:PATH, http://HOST/PATH or https://HOST/PATH.
	URL string
	// Instance is the instance name of the Remote Execution API. It may be empty.
	Instance string
	// Headers are sent with each call.
	Headers map[string]string
	// Certificate, ClientCertificate and ClientKey are files in the PEM format, for TLS. "" means those of the
	// system, and no certificate of the client.
	Certificate, ClientCertificate, ClientKey string
	// CredentialHelper is a program with the protocol of Bazel's --credential_helper. It may be empty.
	CredentialHelper string
	// Timeout limits each call.
	Timeout time.Duration
}

// Open returns the store of a server. It does not wait for the server.
func Open(ctx context.Context, opt Options) (cache.Store, error) {
	headers := map[string]string{}
	for name, value := range opt.Headers {
		headers[name] = value
	}
	if opt.CredentialHelper != "" {
		if err := addCredentials(ctx, opt.CredentialHelper, opt.URL, headers); err != nil {
			return nil, err
		}
	}
	opt.Headers = headers
	switch scheme, _, _ := strings.Cut(opt.URL, ":"); scheme {
	case "grpc", "grpcs", "unix":
		return openGRPC(opt)
	case "http", "https":
		return openHTTP(opt)
	}
	return nil, fmt.Errorf("remote cache %q: expected grpc://, grpcs://, unix:, http:// or https://", opt.URL)
}

// addCredentials adds the headers that a credential helper prints.
func addCredentials(ctx context.Context, helper, url string, headers map[string]string) error {
	request, err := json.Marshal(map[string]string{"uri": strings.Replace(url, "grpcs://", "https://", 1)})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, helper, "get")
	cmd.Stdin = strings.NewReader(string(request))
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("credential helper %s: %w", helper, err)
	}
	var response struct{ Headers map[string][]string }
	if err := json.Unmarshal(out, &response); err != nil {
		return fmt.Errorf("credential helper %s: %w", helper, err)
	}
	for name, values := range response.Headers {
		headers[name] = strings.Join(values, ",")
	}
	return nil
}

// tlsConfig returns the configuration of TLS.
func tlsConfig(opt Options) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if opt.Certificate != "" {
		pem, err := os.ReadFile(opt.Certificate)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: found no certificate, expected the PEM format", opt.Certificate)
		}
	}
	if opt.ClientCertificate != "" {
		pair, err := tls.LoadX509KeyPair(opt.ClientCertificate, opt.ClientKey)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// checked returns a content, or an error if it is not that of the digest.
func checked(data []byte, digest cache.Digest) ([]byte, error) {
	if cache.DigestOf(data) != digest {
		return nil, errors.New("the server sent a blob with another content")
	}
	return data, nil
}
