package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ulikunitz/xz"
	"go.uber.org/goleak"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
)

// TestMain is also the program xz of these tests: it decompresses the standard input.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--decompress" {
		err := decompressInput()
		if err == nil {
			os.Exit(0)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			fmt.Fprintln(os.Stderr, "xz: (stdin): Unexpected end of input")
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func decompressInput() error {
	r, err := xz.NewReader(os.Stdin)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, r)
	return err
}

// TestXZProgram reads an xz file by a program: to its end, a part of it, without its end, and damaged.
func TestXZProgram(t *testing.T) {
	program, err := os.Executable()
	check(t, err)
	plain := make([]byte, 2*leastProgram)
	for i := range plain {
		plain[i] = byte(rand.Uint32())
	}
	data := compressed(t, "xz-crc", plain)
	open := func(t *testing.T, data []byte, program string) *decompressed {
		t.Helper()
		b := budget.New(2, 1<<30)
		d, err := decompress(t.Context(), content.Memory(data), b, program)
		check(t, err)
		t.Cleanup(d.close)
		return d
	}
	damaged := bytes.Clone(data)
	damaged[len(data)/2] ^= 1
	for name, test := range map[string]struct {
		data, want []byte
		failure    string
	}{
		"whole":   {data, plain, ""},
		"cut":     {data[:len(data)/2], nil, "xz: the data is cut short"},
		"damaged": {damaged, nil, "xz: the data is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, test.data, program)
			if _, ok := d.Reader.(named).Reader.(*xzProgram); !ok {
				t.Fatal("the program was not started")
			}
			got, err := io.ReadAll(d)
			if test.failure != "" {
				if err == nil || err.Error() != test.failure {
					t.Errorf("found %v, expected %s", err, test.failure)
				}
			} else if err != nil || !bytes.Equal(got, test.want) {
				t.Errorf("%d bytes, %v; expected %d", len(got), err, len(test.want))
			}
		})
	}
	t.Run("part", func(t *testing.T) {
		if _, err := io.ReadFull(open(t, data, program), make([]byte, 1000)); err != nil {
			t.Error(err)
		}
	})
	t.Run("no program", func(t *testing.T) {
		if got, err := io.ReadAll(open(t, data, "/nonexistent/xz")); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d, err := decompress(ctx, content.Memory(data), budget.New(2, 1<<30), program)
		check(t, err)
		defer d.close()
		cancel()
		if _, err := io.ReadAll(d); err == nil {
			t.Error("no error after cancellation")
		}
	})
}
