package packages_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/installed/packages"
)

func ExampleWalk() {
	var file bytes.Buffer
	w := tar.NewWriter(&file)
	_ = w.WriteHeader(&tar.Header{Name: "lib/libmath.so", Mode: 0o644, Size: 4, Typeflag: tar.TypeReg})
	_, _ = w.Write([]byte("code"))
	_ = w.Close()

	ctx, body := context.Background(), content.Memory(file.Bytes())
	format := packages.Identify(ctx, "math.tar", body, nil)
	err := packages.Walk(ctx, format, body, packages.Options{}, func(m *packages.Member) error {
		fmt.Println(m.Name, m.Size)
		return nil
	})
	fmt.Println(format, err)
	// Output:
	// lib/libmath.so 4
	// tar <nil>
}
