"""offload_archive and offload_unbundle_archive handle archives for several devices."""

load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":images.bzl", "TARGETS_ATTRS", "declare_images", "image_providers", "targets_of")
load(":messages.bzl", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

def _offload_archive_impl(ctx):
    where = place(ctx, "offload_archive")
    bundles = []
    for dep in ctx.attr.bundles:
        if OffloadBundleInfo in dep:
            bundles.append(dep[OffloadBundleInfo].file)
        elif OutputGroupInfo in dep and "bundle" in dep[OutputGroupInfo]:
            # A hip_library that has a bundle for each source.
            bundles.extend(dep[OutputGroupInfo].bundle.to_list())
        else:
            bundles.extend(dep[DefaultInfo].files.to_list())
    if not bundles:
        fail("{}: bundles is empty: add offload_bundle targets or files".format(where))
    out = ctx.actions.declare_file(ctx.attr.out or "lib{}.a".format(ctx.label.name))
    args = offload_arguments(ctx, "archive")
    args.add("--check")
    args.add(out, format = "--output=%s")
    args.add_all(bundles)
    run_offload(
        ctx,
        arguments = args,
        inputs = bundles,
        mnemonic = "OffloadArchive",
        outputs = [out],
        progress_message = "Archiving device images %{label}",
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

offload_archive = rule(
    implementation = _offload_archive_impl,
    doc = """Creates a heterogeneous device archive: a static library of device code for several targets.

`offload_unbundle_archive` and clang extract the device code of a target from it. Entries that cannot be in the same bundle
fail the build.

```starlark
offload_archive(
    name = "device_library",
    bundles = [":math_fat", ":sort_fat"],
)
```
""",
    attrs = {
        "bundles": attr.label_list(
            doc = "Bundles and bundled objects: `offload_bundle` and `hip_library` targets, or files. Each one becomes a member of the archive.",
            mandatory = True,
            allow_files = True,
        ),
        "out": attr.string(
            doc = "File name of the archive, relative to the package. If empty, `libNAME.a`.",
        ),
    },
    exec_groups = PROGRAM_GROUPS,
)

def _offload_unbundle_archive_impl(ctx):
    where = place(ctx, "offload_unbundle_archive")
    args = offload_arguments(ctx, "unbundle-archive")
    args.add(ctx.file.archive, format = "--input=%s")
    if ctx.attr.allow_missing:
        args.add("--allow-missing")
    if ctx.attr.hip_openmp_compatible:
        args.add("--hip-openmp-compatible")
    targets = targets_of(ctx, where)
    images = declare_images(ctx, targets, "a")
    for image in images:
        args.add(image.file, format = "--entry={}=%s".format(image.id))
    run_offload(
        ctx,
        arguments = args,
        coding = True,
        inputs = [ctx.file.archive],
        mnemonic = "OffloadUnbundleArchive",
        outputs = [image.file for image in images],
        progress_message = "Unbundling the device archive %{label}",
    )
    return image_providers(ctx, images)

offload_unbundle_archive = rule(
    implementation = _offload_unbundle_archive_impl,
    doc = """Extracts device images from a heterogeneous device archive, into an archive for each target.

LLVM's compatibility rules select the members for a target: for example, code for `gfx906` is compatible with
`gfx906:xnack+`. A target without a compatible member fails the build, unless `allow_missing` is set. The resulting images
are archives (`.a`), each with all members for a target.

```starlark
offload_unbundle_archive(
    name = "device_library_gfx942",
    archive = ":device_library",
    targets = ["gfx942"],
)
```
""",
    attrs = TARGETS_ATTRS | {
        "allow_missing": attr.bool(
            doc = "Whether to create an empty archive for a target without a compatible member, instead of failing.",
        ),
        "archive": attr.label(
            doc = "The archive: an `offload_archive`, or a file.",
            mandatory = True,
            allow_single_file = True,
        ),
        "hip_openmp_compatible": attr.bool(
            doc = "Whether code of the kinds hip and hipv4 is compatible with targets of the kind openmp, and vice versa.",
        ),
        "kind": attr.string(
            doc = "Offload kind of targets that do not specify one: `hip`, `hipv4` or `openmp`.",
            default = "hipv4",
            values = ["hip", "hipv4", "openmp"],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadImagesInfo],
)
