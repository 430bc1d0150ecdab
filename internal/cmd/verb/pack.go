package verb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var packVerb = verb{
	name:    "pack",
	summary: "Packs device images into an offload binary, the container that clang embeds in objects.",
	examples: []example{
		{"Pack a device object", "offload pack --output device.pack --image file=dev.o,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=openmp"},
	},
	flags: func() action { return new(packFlags) },
}

// packFlags are the flags of offload pack.
type packFlags struct {
	opt      engine.PackOptions
	compress string
	level    int
}

func (f *packFlags) define(flags *flagSet) {
	imagesFlag(flags, &f.opt.Images, packedKinds, "`file=FILE,triple=TRIPLE,kind=KIND,KEY=VALUE...`: an image and its properties. KIND is openmp, cuda, hip, sycl or none; clang also writes arch. May be repeated.")
	flags.StringVar(&f.opt.Output, "output", "", "the offload binary, a `file`; - is standard output")
	flags.IntVar(&f.opt.Version, "format-version", 1, "`version` of the container: 1 for LLVM 15 and later, 2 for LLVM 23 and later, or 3 for LLVM 24 and later")
	flags.complete("format-version", "1", "2", "3")
	flags.StringVar(&f.compress, "compress", "none", "compression `format` of the container: zstd, zlib or none; requires version 3")
	flags.complete("compress", "zstd", "zlib", "none")
	flags.IntVar(&f.level, "level", 0, "compression `level`; 0 is the default of the format")
}

func (f *packFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := noOperands(operands); err != nil {
		return err
	}
	if err := required("output", f.opt.Output); err != nil {
		return err
	}
	if f.opt.Version < 1 || f.opt.Version > 3 {
		return usageError(fmt.Sprintf("--format-version: found %d, expected 1, 2 or 3", f.opt.Version))
	}
	switch f.compress {
	case "none":
	case "zstd", "zlib":
		if f.opt.Version != 3 {
			return usageError(fmt.Sprintf("--compress requires --format-version 3, found %d", f.opt.Version))
		}
		f.opt.Compress = &offloadbinary.Compression{Zlib: f.compress == "zlib", Level: f.level}
		if f.level == 0 {
			f.opt.Compress.Level = offloadbinary.DefaultZstdLevel
			if f.opt.Compress.Zlib {
				f.opt.Compress.Level = offloadbinary.DefaultZlibLevel
			}
		}
	default:
		return usageError(fmt.Sprintf("--compress: found %q, expected zstd, zlib or none", f.compress))
	}
	if len(f.opt.Images) == 0 {
		return usageError("no --image: name at least one, e.g. --image file=dev.o,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=hip")
	}
	for _, image := range f.opt.Images {
		for _, key := range []string{"file", "triple"} {
			if value(image, key) == "" {
				return usageError(fmt.Sprintf("--image %s has no %s=", joined(image), key))
			}
		}
	}
	unknown, err := call.Session.Pack(ctx, f.opt)
	if err != nil {
		return err
	}
	for _, name := range unknown {
		fmt.Fprintf(call.Stderr, "offload pack: warning: %s: neither its name nor its contents indicate a format; packed without one\n", printable.Name(name))
	}
	return nil
}

// imagesFlag defines --image, which may be repeated. Unlike LLVM's tool, it rejects likely
// mistakes.
func imagesFlag(flags *flagSet, images *[][]offloadbinary.String, kinds []string, usage string) {
	flags.repeated("image", usage, func(s string) error {
		seen := map[string]bool{}
		for _, part := range strings.Split(s, ",") {
			key, value, ok := strings.Cut(part, "=")
			switch {
			case !ok || key == "":
				return fmt.Errorf("found %q, expected KEY=VALUE,...", part)
			case seen[key]:
				return fmt.Errorf("%s= is given twice", key)
			case key == "kind" && !slices.Contains(kinds, value):
				return fmt.Errorf("kind: found %q, expected one of %s", value, strings.Join(kinds, ", "))
			}
			seen[key] = true
		}
		*images = append(*images, engine.ParseProperties(s))
		return nil
	})
}

// packedKinds are the offload kinds of offload binaries, storedKinds those that
// bundles have in addition.
var (
	packedKinds = []string{"openmp", "cuda", "hip", "sycl", "none"}
	storedKinds = append(packedKinds[:len(packedKinds):len(packedKinds)], "hipv4", "host")
)

// value returns the value of a property, "" if it is not set.
func value(image []offloadbinary.String, key string) string {
	img := offloadbinary.Image{Strings: image}
	return img.Get(key)
}

// joined returns properties as they were given.
func joined(image []offloadbinary.String) string {
	var parts []string
	for _, p := range image {
		parts = append(parts, p.Key+"="+p.Value)
	}
	return strings.Join(parts, ",")
}
