"""offload_extract extracts device images from any file."""

load("//rules:providers.bzl", "OffloadBinaryInfo", "OffloadBundleInfo", "OffloadImagesInfo")
load(":architectures.bzl", "TARGETS_ATTRS", "architectures_of")
load(":images.bzl", "KIND_ATTRS", "container_of", "declare_images", "image_providers")
load(":messages.bzl", "place")
load(":offload_binary.bzl", "image_properties")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

_PROPERTIES = ["format", "id", "member", "section"]

def _offload_extract_impl(ctx):
    where = place(ctx, "offload_extract")
    args = offload_arguments(ctx, "extract")
    images = declare_images(ctx, architectures_of(ctx, where, ctx.attr.kind), "a" if ctx.attr.archive else ctx.attr.extension)
    properties = []
    for name, value in ctx.attr.properties.items():
        if "," in value or name not in _PROPERTIES:
            fail("{}: properties: {}={}: expected one of {}, and a value without commas".format(where, name, value, ", ".join(_PROPERTIES)))
        properties.append("{}={}".format(name, value))
    for image in images:
        args.add(image.file, format = "--image=file=%s," + ",".join([image_properties(image, where)] + [text.replace("%", "%%") for text in properties]))
    if ctx.attr.archive:
        args.add("--archive")
    src = container_of(ctx.attr.src, [OffloadBundleInfo, OffloadBinaryInfo], where, "src")
    args.add(src)
    run_offload(
        ctx,
        arguments = [args],
        inputs = [src],
        mnemonic = "OffloadExtract",
        outputs = [image.file for image in images],
        progress_message = "Extracting device images %{label}",
    )
    return image_providers(ctx, images)

offload_extract = rule(
    implementation = _offload_extract_impl,
    doc = """Extracts device images from any file: an object, a program, a library, an archive, bitcode, an offload binary or a bundle. For the entry of a bundle that serves a target, use `offload_unbundle`.

The build fails if no image or more than one image is for a target. A program that was linked from several sources usually
has several: select one with `properties`, or extract all of them into an archive (`.a`) with `archive = True`.

```starlark
offload_extract(
    name = "server_code",
    src = ":server",
    archive = True,
    targets = ["gfx942"],
)
```

Default outputs: the image of each target, `NAME/TARGET.co`.

Output groups: `gfx942` and so on, the image of one target.
""",
    attrs = TARGETS_ATTRS | KIND_ATTRS | {
        "archive": attr.bool(
            doc = "Whether to write an archive for each target, which contains all images for it.",
        ),
        "extension": attr.string(
            doc = "Extension of the output files, without the dot.",
            default = "co",
        ),
        "properties": attr.string_dict(
            doc = "Other properties that the images must have: `member` (of an archive: the object of the source), `section`, `id` (of a bundle entry) or `format`. `offload inspect` prints them.",
        ),
        "src": attr.label(
            doc = "The file, or a target with one file. For `hip_library` and `offload_bundle`, the file is the bundle; for `offload_binary`, the offload binary.",
            mandatory = True,
            allow_files = True,
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadImagesInfo],
)
