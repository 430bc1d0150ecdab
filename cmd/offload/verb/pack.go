package verb

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

var packVerb = verb{
	name:    "pack",
	summary: "Puts device images into an offload binary, the container that clang embeds.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		opt := engine.PackOptions{}
		images := imagesFlag(flags, packedKinds, "`file=FILE,triple=TRIPLE,kind=KIND,KEY=VALUE...`: an image and what is known of it. KIND is openmp, cuda, hip, sycl or none; arch is what else clang writes. May be repeated.")
		flags.StringVar(&opt.Output, "output", "", "the offload binary, a `file`; - is standard output")
		flags.IntVar(&opt.Version, "format-version", 1, "`version` of the container: 1, which LLVM 15 and later read, or 2, LLVM 23 and later")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := noOperands(operands); err != nil {
				return err
			}
			if err := required("output", opt.Output); err != nil {
				return err
			}
			if opt.Version != 1 && opt.Version != 2 {
				return usageError(fmt.Sprintf("--format-version is %d, not 1 or 2", opt.Version))
			}
			if len(*images) == 0 {
				return usageError("no --image: name at least one, e.g. --image file=dev.o,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=hip")
			}
			for _, image := range *images {
				for _, key := range []string{"file", "triple"} {
					if value(image, key) == "" {
						return usageError(fmt.Sprintf("--image %s has no %s=", joined(image), key))
					}
				}
			}
			opt.Images = *images
			unknown, err := call.Session.Pack(ctx, opt)
			if err != nil {
				return err
			}
			for _, name := range unknown {
				fmt.Fprintf(call.Stderr, "offload pack: warning: %s: neither name nor content tells its format, it is packed as none\n", name)
			}
			return nil
		}
	},
}

// imagesFlag defines --image, which may be given several times. Unlike LLVM's
// it refuses what looks like a mistake.
func imagesFlag(flags *flag.FlagSet, kinds []string, usage string) *[][]offloadbinary.String {
	var images [][]offloadbinary.String
	flags.Func("image", usage, func(s string) error {
		seen := map[string]bool{}
		for _, part := range strings.Split(s, ",") {
			key, value, ok := strings.Cut(part, "=")
			switch {
			case !ok || key == "":
				return fmt.Errorf("want KEY=VALUE,..., found %q", part)
			case seen[key]:
				return fmt.Errorf("%s= is given twice", key)
			case key == "kind" && !slices.Contains(kinds, value):
				return fmt.Errorf("kind %q is none of %s", value, strings.Join(kinds, ", "))
			}
			seen[key] = true
		}
		images = append(images, engine.ParseProperties(s))
		return nil
	})
	return &images
}

// packedKinds are the offload kinds of offload binaries, storedKinds those that
// bundles have in addition.
var (
	packedKinds = []string{"openmp", "cuda", "hip", "sycl", "none"}
	storedKinds = append(packedKinds[:len(packedKinds):len(packedKinds)], "hipv4", "host")
)

// value returns the value of a property, "" if there is none.
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
