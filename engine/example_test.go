package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// workspace returns a session in a new directory with two code objects, and a
// function that removes the directory.
func workspace() (*engine.Session, func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	for _, arch := range []string{"gfx90a", "gfx942"} {
		if err := os.WriteFile(filepath.Join(dir, arch+".co"), []byte("\x7fELF code for "+arch), 0o666); err != nil {
			log.Fatal(err)
		}
	}
	return engine.New(engine.Config{Dir: dir}), func() { os.RemoveAll(dir) }
}

// entries returns the entries of a bundle of two code objects.
func entries() []engine.BundleEntry {
	list := []engine.BundleEntry{}
	for _, arch := range []string{"gfx90a", "gfx942"} {
		id, err := target.Complete(arch, target.HIPv4)
		if err != nil {
			log.Fatal(err)
		}
		list = append(list, engine.BundleEntry{Target: id, Input: arch + ".co"})
	}
	return list
}

// bundled makes kernels.hipfb.
func bundled(ctx context.Context, s *engine.Session) {
	opt := engine.BundleOptions{Entries: entries(), Output: "kernels.hipfb", Align: 4096, Compress: &engine.Compression{Level: 3}}
	if _, err := s.Bundle(ctx, opt); err != nil {
		log.Fatal(err)
	}
}

// Make a compressed bundle of two code objects.
func ExampleSession_Bundle() {
	s, remove := workspace()
	defer remove()
	result, err := s.Bundle(context.Background(), engine.BundleOptions{
		Entries:  entries(),
		Output:   "kernels.hipfb",
		Align:    4096, // as the HIP runtime expects
		Compress: &engine.Compression{Level: 3},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Compressed.RawSize)
	// Output: 8212
}

// List the entries of a bundle, compressed or not.
func ExampleSession_List() {
	ctx := context.Background()
	s, remove := workspace()
	defer remove()
	bundled(ctx, s)
	listed, err := s.List(ctx, engine.ListOptions{Input: "kernels.hipfb"})
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range listed {
		fmt.Println(entry.ID, entry.Size)
	}
	// Output:
	// hipv4-amdgcn-amd-amdhsa--gfx90a 20
	// hipv4-amdgcn-amd-amdhsa--gfx942 20
}

// Extract the code for one GPU from a bundle. The entry for gfx942 serves a GPU whose target ID
// sets a feature that the entry leaves unspecified.
func ExampleSession_Unbundle() {
	ctx := context.Background()
	s, remove := workspace()
	defer remove()
	bundled(ctx, s)
	gpu, err := target.Complete("gfx942:xnack+", target.HIPv4)
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Unbundle(ctx, engine.UnbundleOptions{
		Input:    "kernels.hipfb",
		Requests: []engine.UnbundleRequest{{Target: gpu, Output: "gpu.co"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	input, err := s.Files().Open("gpu.co")
	if err != nil {
		log.Fatal(err)
	}
	defer input.Close()
	fmt.Printf("%q\n", input.All().Mapped(guard.Inside))
	// Output: "\x7fELF code for gfx942"
}

// Make an archive of bundles, and from it an archive for a single GPU.
func ExampleSession_Unbundle_archive() {
	ctx := context.Background()
	s, remove := workspace()
	defer remove()
	bundled(ctx, s)
	if err := s.Archive(ctx, engine.ArchiveOptions{Inputs: []string{"kernels.hipfb"}, Output: "all.a", Check: true}); err != nil {
		log.Fatal(err)
	}
	_, err := s.Unbundle(ctx, engine.UnbundleOptions{
		Type:     bundle.ArchiveType,
		Input:    "all.a",
		Requests: []engine.UnbundleRequest{{Target: entries()[0].Target, Output: "gfx90a.a"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	listed, err := s.List(ctx, engine.ListOptions{Input: "all.a", Type: bundle.ArchiveType})
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range listed {
		fmt.Println(entry.Member, entry.ID)
	}
	// Output:
	// kernels.hipfb hipv4-amdgcn-amd-amdhsa--gfx90a
	// kernels.hipfb hipv4-amdgcn-amd-amdhsa--gfx942
}

// Find the device images in any file, and read one of them.
func ExampleSession_Open() {
	ctx := context.Background()
	s, remove := workspace()
	defer remove()
	bundled(ctx, s)
	f, err := s.Open(ctx, "kernels.hipfb", images.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for image, err := range f.Images() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(image.Form, image.Arch, image.Size)
		contents, err := f.Load(ctx, image) // decodes it
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q\n", contents.Get(0).Mapped(guard.Inside))
		contents.Close()
	}
	// Output:
	// compressed bundle gfx90a 20
	// "\x7fELF code for gfx90a"
	// compressed bundle gfx942 20
	// "\x7fELF code for gfx942"
}
