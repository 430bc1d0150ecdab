package bundle_test

import (
	"fmt"
	"log"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
)

// Write a bundle with code for the host and one GPU to memory, and read it.
func Example() {
	layout, err := bundle.NewLayout([]bundle.Item{
		{ID: "host-x86_64-unknown-linux-gnu-"},
		{ID: "hipv4-amdgcn-amd-amdhsa--gfx942", Content: content.Memory([]byte("code for gfx942"))},
	}, bundle.Options{Align: 4096})
	if err != nil {
		log.Fatal(err)
	}
	var out content.Buffer // or &content.WriterSink{W: w} for any writer
	if err := layout.Write(&out); err != nil {
		log.Fatal(err)
	}
	parsed, err := bundle.Parse(out.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range parsed.Entries {
		fmt.Printf("%s: %d bytes at %d %q\n", e.ID, e.Size, e.Offset, e.Content(out.Bytes()))
	}
	// Output:
	// host-x86_64-unknown-linux-gnu-: 0 bytes at 4096 ""
	// hipv4-amdgcn-amd-amdhsa--gfx942: 15 bytes at 4096 "code for gfx942"
}
