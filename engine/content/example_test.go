package content_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine/content"
)

// Write a range of a file, after bytes in memory, to any writer.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "data")
	data := []byte("0123456789")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		log.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	part := content.Of(file, data, 0).Slice(4, 3)

	sink := &content.WriterSink{W: os.Stdout}
	for _, c := range []content.Content{content.Memory([]byte("bytes 4 to 6: ")), part} {
		if err := sink.Append(c); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println()
	// Output: bytes 4 to 6: 456
}
