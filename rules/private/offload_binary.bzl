"""offload_binary packs device images into the container that clang embeds."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("//rules:providers.bzl", "OffloadBinaryInfo", "OffloadImagesInfo")
load(":images.bzl", "IMAGES_ATTRS", "image_groups", "images_of")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

def image_properties(image, where):
    """Returns the properties of an image in an offload binary, in clang's notation.

    Args:
      image: an `offload_image()`.
      where: prefix of error messages, `label: rule`.

    Returns:
      a string `triple=...,arch=...,kind=...`.
    """
    kind = image.kind.removesuffix("v4")
    if kind == "host":
        fail("{}: {} is a host image, which an offload binary cannot contain".format(where, name_of(image.label)))
    triple = image.triple.removesuffix("-")
    if triple.startswith("nvptx"):
        triple = triple.removesuffix("-unknown")
    return "triple={},arch={},kind={}".format(triple, image.target_id, kind)

def add_image(args, image, where):
    """Adds an image to the arguments of the command `pack`.

    Args:
      args: an `Args`.
      image: an `offload_image()`.
      where: prefix of error messages, `label: rule`.
    """
    if "," in image.file.path:
        fail("{}: the file {} of {} has a comma in its name, which separates the properties of an image".format(
            where,
            image.file.short_path,
            name_of(image.label),
        ))
    args.add(image.file, format = "--image=file=%s," + image_properties(image, where))

def _offload_binary_impl(ctx):
    where = place(ctx, "offload_binary")
    images = images_of(ctx, where)
    out = ctx.actions.declare_file(ctx.attr.out or ctx.label.name + ".ofb")
    version = ctx.attr.binary_version or ctx.attr._binary_version[BuildSettingInfo].value
    if version not in (1, 2):
        fail("{}: binary_version is {}, expected 1, for LLVM 15 and later, or 2, for LLVM 23 and later".format(where, version))
    args = offload_arguments(ctx, "pack")
    args.add(version, format = "--format-version=%s")
    args.add(out, format = "--output=%s")
    for image in images:
        add_image(args, image, where)
    run_offload(
        ctx,
        arguments = [args],
        inputs = [image.file for image in images],
        mnemonic = "OffloadPack",
        outputs = [out],
        progress_message = "Packing device images %{label}",
    )
    return [
        DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out])),
        OffloadBinaryInfo(file = out, images = depset(images)),
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(**image_groups(images)),
    ]

offload_binary = rule(
    implementation = _offload_binary_impl,
    doc = """Packs device images into an offload binary, the container (`10 FF 10 AD`) that clang embeds into host objects. For the file that HIP's runtime loads, use `offload_bundle`.

Unlike a bundle, it can contain several images for one target, which a device linker links. `offload_embed` adds it to a host object.

```starlark
offload_binary(
    name = "kernels_package",
    images = [":kernels"],
)
```

Default outputs: the offload binary.

Output groups: `gfx942` and so on, the images of one target.
""",
    attrs = IMAGES_ATTRS | {
        "binary_version": attr.int(
            doc = "Version of the format: 1, which LLVM 15 and later can read, or 2. If 0, the value of the setting `//rules/settings:binary_version`.",
        ),
        "out": attr.string(
            doc = "File name of the binary, relative to the package. If empty, `NAME.ofb`.",
        ),
        "_binary_version": attr.label(
            default = "//rules/settings:binary_version",
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadBinaryInfo, OffloadImagesInfo],
)
