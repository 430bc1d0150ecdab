"""offload_unbundle extracts device images from a bundle."""

load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":images.bzl", "TARGETS_ATTRS", "container_of", "declare_images", "image_providers", "targets_of")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

def _offload_unbundle_impl(ctx):
    where = place(ctx, "offload_unbundle")
    targets = targets_of(ctx, where)
    if OffloadBundleInfo in ctx.attr.bundle:
        target_ids.check_served(ctx.attr.bundle[OffloadBundleInfo].entry_ids, targets, where, name_of(ctx.attr.bundle.label))

    bundle = container_of(ctx.attr.bundle, [OffloadBundleInfo], where, "bundle")
    args = offload_arguments(ctx, "unbundle")
    args.add("--type", ctx.attr.type)
    args.add(bundle, format = "--input=%s")

    images = declare_images(ctx, targets, "bc" if ctx.attr.type == "bc" else "co")
    for image in images:
        args.add(image.file, format = "--entry={}=%s".format(image.id))
    run_offload(
        ctx,
        arguments = args,
        inputs = [bundle],
        mnemonic = "OffloadUnbundle",
        outputs = [image.file for image in images],
        progress_message = "Unbundling device images %{label}",
    )
    return image_providers(ctx, images)

offload_unbundle = rule(
    implementation = _offload_unbundle_impl,
    doc = """Extracts device images from a bundle.

LLVM's compatibility rules select the entry for each target. An exact match takes
precedence. The build fails if the bundle has no entry for a target. If the bundle
is a target with `OffloadBundleInfo`, this already fails the analysis.

```starlark
offload_unbundle(
    name = "kernels_gfx942",
    bundle = ":kernels_fat",
    targets = ["gfx942"],
)
```
""",
    attrs = TARGETS_ATTRS | {
        "bundle": attr.label(
            doc = "The bundle: an `offload_bundle`, a `hip_library`, or a file.",
            mandatory = True,
            allow_files = True,
        ),
        "kind": attr.string(
            doc = "Offload kind of targets that do not specify one: `hip`, `hipv4` or `openmp`.",
            default = "hipv4",
            values = ["hip", "hipv4", "openmp"],
        ),
        "type": attr.string(
            doc = "File type of the bundle, as in `clang-offload-bundler -type`: `o` for code objects and host objects, `bc` for bitcode.",
            default = "o",
            values = ["o", "bc"],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadImagesInfo],
)
