"""offload_images declares existing files as device images."""

load("//rules:providers.bzl", "OffloadImagesInfo", "offload_image")
load(":images.bzl", "KIND_ATTRS", "image_providers")
load(":messages.bzl", "name_of", "place")
load(":target_ids.bzl", "target_ids")

def _offload_images_impl(ctx):
    where = place(ctx, "offload_images")
    if not ctx.attr.srcs:
        fail("{}: srcs is empty: add files and their targets, e.g. {{\"kernels.gfx942.co\": \"gfx942\"}}".format(where))
    targets = target_ids.complete_all(ctx.attr.kind, ctx.attr.srcs.values(), where, "srcs")
    images = []
    for (src, _), target in zip(ctx.attr.srcs.items(), targets):
        files = src[DefaultInfo].files.to_list()
        if len(files) != 1:
            fail("{}: srcs: {} has {} files, expected one for an image".format(where, name_of(src.label), len(files)))
        images.append(offload_image(
            file = files[0],
            kind = target.kind,
            label = ctx.label,
            target_id = target.target_id,
            triple = target.triple,
        ))
    return image_providers(ctx, images)

offload_images = rule(
    implementation = _offload_images_impl,
    doc = """Declares existing files as device images: code objects in the repository, or outputs of another rule.

The rule does not build anything. The validation of an `offload_bundle` that contains an image fails if the image is not
for the GPU that `srcs` specifies.

```starlark
offload_images(
    name = "vendor_kernels",
    srcs = {
        "vendor/attention.gfx90a.co": "gfx90a",
        "vendor/attention.gfx942.co": "gfx942",
    },
)
```

Default outputs: the files in `srcs`.

Output groups: `gfx942` and so on, the files for one target.
""",
    attrs = KIND_ATTRS | {
        "srcs": attr.label_keyed_string_dict(
            doc = "The files, or targets with one file each. The value is the target of the file: a target ID such as `gfx90a:xnack+`, a triple, or a full entry ID.",
            mandatory = True,
            allow_files = True,
        ),
    },
    provides = [OffloadImagesInfo],
)
