package ccob_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
)

// Compress a bundle, and decode only the code for one GPU.
func Example() {
	ctx := context.Background()
	code := content.Memory([]byte(strings.Repeat("s_nop 0\n", 4096)))
	layout, err := bundle.NewLayout([]bundle.Item{
		{ID: "hipv4-amdgcn-amd-amdhsa--gfx90a", Content: code},
		{ID: "hipv4-amdgcn-amd-amdhsa--gfx942", Content: code},
	}, bundle.Options{Align: 1})
	if err != nil {
		log.Fatal(err)
	}
	var compressed bytes.Buffer
	stats, err := ccob.Encode(ctx, &content.WriterSink{W: &compressed}, layout.Parts, ccob.EncodeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.RawSize, "bytes compressed:", compressed.Len() < 1000)

	r, err := ccob.Open(compressed.Bytes(), ccob.Options{})
	if err != nil {
		log.Fatal(err)
	}
	last := layout.Parts[2]
	var out strings.Builder
	if err := r.Extract(ctx, []ccob.Range{{Offset: last.Offset, Size: last.Content.Len(), W: &out}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Len(), "bytes of gfx942")
	// Output:
	// 65678 bytes compressed: true
	// 32768 bytes of gfx942
}
