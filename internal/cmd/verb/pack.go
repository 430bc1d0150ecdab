package verb

import (
	"compress/zlib"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

var packVerb = verb{
	name:    "pack",
	summary: "Packs device images into an offload binary, the container that clang embeds in objects.",
	examples: []example{
		{"Pack a device object", "offload pack --output device.pack --image file=dev.o,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=openmp"},
	},
	flags: func(flags *flagSet) runner { return new(packFlags).define(flags) },
}

// packFlags are the flags of offload pack.
type packFlags struct {
	opt      engine.PackOptions
	compress bool
	zlib     bool
	level    int
	flags    *flagSet
}

// define defines the flags and returns what runs the verb.
func (f *packFlags) define(flags *flagSet) runner {
	imagesFlag(flags, &f.opt.Images, packedKinds(), "`file=FILE,triple=TRIPLE,kind=KIND,KEY=VALUE...`: an image and its properties. KIND is "+alternatives(packedKinds())+"; clang also writes arch. May be repeated.")
	flags.StringVar(&f.opt.Output, "output", "", "the offload binary, a `file`; - is standard output")
	f.opt.Version = offloadbinary.DefaultVersion
	versions, texts := []string{}, []string{}
	for v := 1; v <= offloadbinary.NewestVersion; v++ {
		versions = append(versions, strconv.Itoa(v))
		texts = append(texts, fmt.Sprintf("%d for LLVM %d and later", v, offloadbinary.FirstRelease(v)))
	}
	last := len(texts) - 1
	usage := fmt.Sprintf("`version` of the container: %s, or %s (default %d)", strings.Join(texts[:last], ", "), texts[last], f.opt.Version)
	flags.choice("format-version", usage, versions, func(s string) { f.opt.Version, _ = strconv.Atoi(s) })
	flags.BoolVar(&f.compress, "compress", false, fmt.Sprintf("compress the container; requires --format-version %d", offloadbinary.CompressedVersion))
	flags.choice("compression-format", "`format` of compression, zstd or zlib (default zstd)", []string{"zstd", "zlib"}, func(s string) { f.zlib = s == "zlib" })
	levelFlag(flags, &f.level)
	f.flags = flags
	return f.run
}

func (f *packFlags) run(call *invocation) error {
	if len(call.operands) > 0 {
		return usageError("unexpected argument " + call.operands[0] + "; write --image file=" + call.operands[0] + ",triple=TRIPLE,kind=KIND")
	}
	if err := required("output", f.opt.Output); err != nil {
		return err
	}
	if err := f.compression(); err != nil {
		return err
	}
	if len(f.opt.Images) == 0 {
		return usageError("no --image: name at least one, e.g. --image file=dev.o,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=hip")
	}
	for _, image := range f.opt.Images {
		for _, key := range []string{"file", "triple"} {
			if image.Get(key) == "" {
				return usageError(fmt.Sprintf("--image %s: %s= is missing", joined(image), key))
			}
		}
	}
	for _, image := range f.opt.Images {
		if arch := image.Get("arch"); arch != "" && target.ParseTriple(image.Get("triple")).Arch == target.ArchAMDGCN {
			if err := checkGPU(arch); err != nil {
				call.warn("--image: arch=%s: %s", printable.Name(arch), printable.Error(err))
			}
		}
	}
	unknown, err := call.Session.Pack(call.ctx, f.opt)
	if err != nil {
		return err
	}
	for _, name := range unknown {
		call.warn("%s: neither its name nor its contents indicate a format; packed without one", printable.Name(name))
	}
	return nil
}

// compression sets the compression of the container.
func (f *packFlags) compression() error {
	if !f.compress {
		return f.flags.requires("compress", "compression-format", "level")
	}
	if f.opt.Version != offloadbinary.CompressedVersion {
		return usageError(fmt.Sprintf("--compress requires --format-version %d", offloadbinary.CompressedVersion))
	}
	c := &offloadbinary.Compression{Zlib: f.zlib, Level: f.level}
	_, chosen := f.flags.given["level"]
	switch {
	case c.Zlib && !chosen:
		c.Level = offloadbinary.DefaultZlibLevel
	case c.Zlib:
		c.Level = min(c.Level, zlib.BestCompression)
	}
	f.opt.Compress = c
	return nil
}

// imagesFlag defines --image, which may be repeated. Unlike LLVM's tool, it rejects likely
// mistakes.
func imagesFlag(flags *flagSet, images *[]offloadbinary.Properties, kinds []string, usage string) {
	flags.repeated("image", usage, func(s string) error {
		seen := map[string]bool{}
		for _, part := range strings.Split(s, ",") {
			key, value, ok := strings.Cut(part, "=")
			switch {
			case !ok || key == "":
				return fmt.Errorf("found %q, expected KEY=VALUE,...", part)
			case seen[key]:
				return fmt.Errorf("%s= is given twice", key)
			}
			if key == "kind" {
				if err := oneOf(value, kinds); err != nil {
					return fmt.Errorf("kind=: %w", err)
				}
			}
			if target.KnownProcessor(key) {
				return fmt.Errorf("unknown key %s; write arch=%s,file=%s", key, key, value)
			}
			if near := nearest.Name(key, imageKeys); near != "" && !slices.Contains(imageKeys, key) {
				return fmt.Errorf("unknown key %s; did you mean %s?", key, near)
			}
			seen[key] = true
		}
		*images = append(*images, engine.ParseProperties(s))
		return nil
	})
}

// imageKeys are the keys of --image with a meaning. Offload binaries can have others.
var imageKeys = []string{"file", "triple", "arch", "kind", "id", "member", "section", "format"}

// packedKinds returns the offload kinds of offload binaries.
func packedKinds() []string { return append(runtimes.Names(), offloadbinary.OffloadKind(0).String()) }

// storedKinds returns those of offload binaries and of bundles.
func storedKinds() []string { return append(packedKinds(), string(target.HIPv4), string(target.Host)) }

// joined returns properties as they were given.
func joined(image offloadbinary.Properties) string {
	var parts []string
	for _, p := range image {
		parts = append(parts, p.Key+"="+p.Value)
	}
	return strings.Join(parts, ",")
}
