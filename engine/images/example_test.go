package images_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// kernels writes a bundle to a file and returns the name of the file.
func kernels(dir string) string {
	layout, err := bundle.NewLayout([]bundle.Item{
		{ID: "hipv4-amdgcn-amd-amdhsa--gfx90a", Content: content.Memory([]byte("code for gfx90a"))},
		{ID: "hipv4-amdgcn-amd-amdhsa--gfx942", Content: content.Memory([]byte("code for gfx942"))},
	}, bundle.Options{Align: 1})
	if err != nil {
		log.Fatal(err)
	}
	var out content.Buffer
	if err := layout.Write(&out); err != nil {
		log.Fatal(err)
	}
	name := filepath.Join(dir, "kernels.hipfb")
	if err := os.WriteFile(name, out.Bytes(), 0o666); err != nil {
		log.Fatal(err)
	}
	return name
}

// Print the code for gfx942 in a file, however the file stores it.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	f, err := images.Open(ctx, kernels(dir), images.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for image, err := range f.Images() {
		if err != nil {
			log.Fatal(err)
		}
		if image.Arch != "gfx942" {
			continue
		}
		contents, err := f.Load(ctx, image)
		if err != nil {
			log.Fatal(err)
		}
		defer contents.Close()
		fmt.Printf("%s: %q\n", image.ID, contents.Get(0).Mapped(guard.Inside))
	}
	// Output: hipv4-amdgcn-amd-amdhsa--gfx942: "code for gfx942"
}
