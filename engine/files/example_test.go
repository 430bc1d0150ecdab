package files_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rules-offload/rules_offload/engine/files"
)

// Copies a file of a directory. The copy appears under its name once it is complete.
func Example() {
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(dir+"/gpu.co", []byte("code"), 0o666); err != nil {
		fmt.Println(err)
		return
	}

	root := files.NewRoot(dir)
	input, err := root.Open("gpu.co")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer input.Close()
	err = root.WriteFile(context.Background(), "copy.co", func(out *files.Output) error { return out.Append(input.All()) })
	if err != nil {
		fmt.Println(err)
		return
	}

	done, err := root.Open("copy.co")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done.Close()
	text, err := io.ReadAll(io.NewSectionReader(done, 0, done.Size()))
	fmt.Printf("%s %v\n", text, err)
	// Output: code <nil>
}
