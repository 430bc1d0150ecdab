"""offload_unbundle extracts device images from a bundle, or from an archive of bundles."""

load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":architectures.bzl", "TARGETS_ATTRS", "architectures_of")
load(":images.bzl", "KIND_ATTRS", "container_of", "declare_images", "image_providers", "require_bundle")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

_ARCHIVE = "a"

# The extensions of images, by the type of the bundle.
_EXTENSIONS = {
    _ARCHIVE: "a",
    "bc": "bc",
    "o": "co",
}

def _offload_unbundle_impl(ctx):
    where = place(ctx, "offload_unbundle")
    bundle = ctx.attr.bundle
    archive = ctx.attr.type == _ARCHIVE
    if not archive:
        require_bundle(bundle, where, "bundle")
    targets = architectures_of(ctx, where, ctx.attr.kind)
    if OffloadBundleInfo in bundle and not archive and not ctx.attr.allow_missing and not ctx.attr.hip_openmp_compatible:
        target_ids.check_served(bundle[OffloadBundleInfo].entry_ids, targets, where, name_of(bundle.label))

    file = container_of(bundle, [OffloadBundleInfo], where, "bundle")
    args = offload_arguments(ctx, "unbundle-archive" if archive else "unbundle")
    if not archive:
        args.add("--type", ctx.attr.type)
    args.add(file, format = "--input=%s")
    if ctx.attr.allow_missing:
        args.add("--allow-missing")
    if ctx.attr.hip_openmp_compatible:
        args.add("--hip-openmp-compatible")
    images = declare_images(ctx, targets, _EXTENSIONS[ctx.attr.type])
    for image in images:
        args.add(image.file, format = "--entry={}=%s".format(image.id))
    run_offload(
        ctx,
        arguments = [args],
        coding = archive,
        inputs = [file],
        mnemonic = "OffloadUnbundleArchive" if archive else "OffloadUnbundle",
        outputs = [image.file for image in images],
        progress_message = "Unbundling device images %{label}",
    )
    return image_providers(ctx, images)

offload_unbundle = rule(
    implementation = _offload_unbundle_impl,
    doc = """Extracts the code that serves each target from a bundle, or from an archive of bundles (`type = "a"`). For files of unknown contents, use `offload_extract`.

LLVM's compatibility rules select the entry for each target: for example, code for `gfx906` is compatible with
`gfx906:xnack+`. An exact match takes precedence. The build fails if there is no compatible entry, unless `allow_missing` is
set. If `bundle` is a target with `OffloadBundleInfo`, this already fails the analysis.

```starlark
offload_unbundle(
    name = "kernels_gfx942",
    bundle = ":kernels_fat",
    targets = ["gfx942"],
)

offload_unbundle(
    name = "device_library_gfx942",
    bundle = ":device_library",
    targets = ["gfx942"],
    type = "a",
)
```

The image from an archive is an archive (`.a`) with all members for the target.

Default outputs: the image of each target, `NAME/TARGET.co`; if `type` is `bc` or `a`, with this extension.

Output groups: `gfx942` and so on, the image of one target.
""",
    attrs = TARGETS_ATTRS | KIND_ATTRS | {
        "allow_missing": attr.bool(
            doc = "Whether to create an empty file for a target without a compatible entry, instead of failing.",
        ),
        "bundle": attr.label(
            doc = "The bundle: an `offload_bundle`, a `hip_library`, or a file. If `type` is `a`, the archive of bundles: an `offload_archive` or a file.",
            mandatory = True,
            allow_files = True,
        ),
        "hip_openmp_compatible": attr.bool(
            doc = "Whether code of the kinds hip and hipv4 is compatible with targets of the kind openmp, and vice versa.",
        ),
        "type": attr.string(
            doc = "File type of `bundle`, as in `clang-offload-bundler -type`: `o` for bundles of code objects and for host objects, `bc` for bitcode, `a` for archives.",
            default = "o",
            values = ["o", "bc", _ARCHIVE],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadImagesInfo],
)
