package engine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/kernels"
)

// Images that do not fit into memory in parallel are described one after another; an image that
// does not fit alone is an error.
func TestKernelsWithLittleMemory(t *testing.T) {
	const size = 6 << 20
	var items []bundle.Item
	for i, arch := range []string{"gfx906", "gfx90a", "gfx942", "gfx1100"} {
		body := bytes.Repeat([]byte{byte(i), 1, 2, 3}, size/4)
		items = append(items, bundle.Item{ID: "hipv4-amdgcn-amd-amdhsa--" + arch, Content: content.Memory(body)})
	}
	layout, err := bundle.NewLayout(items, bundle.Options{Align: 4096})
	if err != nil {
		t.Fatal(err)
	}
	var packed content.Buffer
	if _, err := ccob.Encode(t.Context(), &packed, layout.Parts, ccob.EncodeOptions{Frames: ccob.FramesEntry}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), packed.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	describe := func(memory int64) ([]kernels.Image, error) {
		s := New(Config{Dir: dir, Budget: budget.New(4, memory)})
		file, err := s.Inspect(s.Context(t.Context()), "in", InspectOptions{Hash: true})
		if err != nil {
			return nil, err
		}
		return file.Images, nil
	}
	want, err := describe(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	// An image and the window of its decoder take 13 MiB, four of them more than half of 32.
	got, err := describe(32 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 4 || want[0].Hash == want[1].Hash {
		t.Errorf("-all at once +one after the other:\n%s", diff)
	}
	var limit *budget.LimitError
	if _, err := describe(10 << 20); !errors.As(err, &limit) || limit.Limit != 10<<20 {
		t.Errorf("an image and its window in 10 MiB: %v", err)
	}
}
