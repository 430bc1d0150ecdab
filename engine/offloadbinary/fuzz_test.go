package offloadbinary

import (
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
)

func FuzzParse(f *testing.F) {
	f.Add(write(f, 1, twoImages(1)))
	f.Add(write(f, 2, twoImages(2)))
	f.Add(compress(f, write(f, 2, twoImages(2)), ""))
	f.Add(compress(f, write(f, 2, twoImages(2)), "zstd"))
	f.Add(compress(f, write(f, 2, twoImages(2)), "zlib"))
	f.Fuzz(func(t *testing.T, data []byte) {
		end := int64(0)
		for p, err := range Parse(content.Memory(data), Options{Inflate: UpTo(1 << 20)}) {
			if err != nil {
				if e, ok := err.(*Error); !ok || e.Error() == "" {
					t.Fatalf("error %v of type %T", err, err)
				}
				return
			}
			if p.Offset < end || p.Size < headerSize || p.Offset+p.Size > int64(len(data)) {
				t.Fatalf("package at 0x%x with %d bytes behind 0x%x in %d bytes", p.Offset, p.Size, end, len(data))
			}
			end = p.Offset + p.Size
			for i := range p.Images {
				if p.Images[i].Content.Len() > max(p.Size, p.Inflated) {
					t.Fatalf("image with %d bytes in a package of %d", p.Images[i].Content.Len(), p.Size)
				}
			}
			// What was read can be written and read again.
			var out content.Buffer
			if Write(&out, 2, p.Images) != nil {
				continue // a key with a NUL
			}
			if _, err := parse(out.Bytes(), Options{}); err != nil {
				t.Fatalf("written again: %v", err)
			}
		}
	})
}
