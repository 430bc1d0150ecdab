"""offload_bundle combines device images into one file."""

load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":bundling.bzl", "bundle_images")
load(":compression.bzl", "COMPRESSION_ATTRS", "compression_of")
load(":images.bzl", "IMAGES_ATTRS", "image_groups", "images_of")
load(":messages.bzl", "place")
load(":program.bzl", "PROGRAM_GROUPS")
load(":validation.bzl", "VALIDATION_ATTRS", "validate_bundle")

def _offload_bundle_impl(ctx):
    where = place(ctx, "offload_bundle")
    images = images_of(ctx, where)
    host = ctx.attr.host
    if host and (host.count("-") != 3 or not all(host.split("-"))):
        fail("{}: host is {}, expected a triple of four fields, such as x86_64-unknown-linux-gnu, or \"\" for no host entry".format(where, repr(host)))
    out = ctx.actions.declare_file(ctx.attr.out or ctx.label.name + ".hipfb")
    bundle = bundle_images(
        ctx,
        alignment = ctx.attr.alignment,
        compression = compression_of(ctx, where),
        host = host,
        images = images,
        out = out,
        type = ctx.attr.type,
        where = where,
    )
    return [
        DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out])),
        bundle,
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(
            _validation = depset(validate_bundle(ctx, bundle = bundle, images = images, where = where)),
            **image_groups(images)
        ),
    ]

offload_bundle = rule(
    implementation = _offload_bundle_impl,
    doc = """Combines the device images of several targets into one bundle, the file that HIP's runtime loads. For a device linker, use `offload_binary`.

The images come from rules that provide `OffloadImagesInfo`. The analysis fails if
two images are for the same target, or if target IDs cannot be in the same bundle.

```starlark
offload_bundle(
    name = "kernels_fat",
    compress = "zstd",
    images = [":kernels"],
    max_size = "1GiB",
)
```

Default outputs: the bundle.

Output groups: `gfx942` and so on, the images of one target; `_validation`, the [checks](../howto/validation.md).
""",
    attrs = VALIDATION_ATTRS | COMPRESSION_ATTRS | IMAGES_ATTRS | {
        "alignment": attr.int(
            doc = "Alignment of the entries in bytes, 1 or more. The HIP runtime maps pages of 4096 bytes.",
            default = 4096,
        ),
        "host": attr.string(
            doc = "Triple, without empty fields, of the empty host entry at the start of the bundle, which HIP's bundles have. If empty, there is no host entry.",
            default = "x86_64-unknown-linux-gnu",
        ),
        "out": attr.string(
            doc = "File name of the bundle, relative to the package. If empty, `NAME.hipfb`.",
        ),
        "type": attr.string(
            doc = "File type of the entries, as in `clang-offload-bundler -type`: `o` for code objects, `bc` for bitcode.",
            default = "o",
            values = ["o", "bc"],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadBundleInfo, OffloadImagesInfo],
)
