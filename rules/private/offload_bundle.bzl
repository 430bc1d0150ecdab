"""offload_bundle: device images in one file."""

load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

def _offload_bundle_impl(ctx):
    where = place(ctx, "offload_bundle")
    images = depset(transitive = [dep[OffloadImagesInfo].images for dep in ctx.attr.images]).to_list()
    if not images:
        fail("{}: images: no image in {}".format(where, ", ".join([name_of(dep.label) for dep in ctx.attr.images])))
    target_ids.check(images, where)

    out = ctx.actions.declare_file(ctx.attr.out or ctx.label.name + ".hipfb")
    args = offload_arguments(ctx, "bundle")
    args.add("--type", ctx.attr.type)
    if ctx.attr.alignment < 1:
        fail("{}: alignment is {}; it is a number of bytes, 1 or more".format(where, ctx.attr.alignment))
    args.add("--align", ctx.attr.alignment)
    args.add(out, format = "--output=%s")

    entry_ids = []
    if ctx.attr.host:
        entry_ids.append("host-{}-".format(ctx.attr.host))
        args.add(entry_ids[0], format = "--entry=%s=")
    for image in images:
        entry_ids.append(image.id)
        args.add(image.file, format = "--entry={}=%s".format(image.id))

    run_offload(
        ctx,
        arguments = args,
        inputs = [image.file for image in images],
        mnemonic = "OffloadBundle",
        outputs = [out],
        progress_message = "Bundling device images %{label}",
    )
    return [
        DefaultInfo(files = depset([out])),
        OffloadBundleInfo(
            compressed = False,
            entry_ids = entry_ids,
            file = out,
            type = ctx.attr.type,
        ),
    ]

offload_bundle = rule(
    implementation = _offload_bundle_impl,
    doc = """Puts the device images of several targets into one bundle.

The images come from rules that give `OffloadImagesInfo`. Two images for one
target, and target IDs that cannot be in one bundle, fail at analysis.
""",
    attrs = {
        "alignment": attr.int(
            doc = "Each entry starts at a multiple of this many bytes. The HIP runtime maps pages: 4096.",
            default = 4096,
        ),
        "host": attr.string(
            doc = "Triple (four fields) of the empty host entry that the bundle begins with, as HIP's bundles do. Empty for none.",
            default = "x86_64-unknown-linux-gnu",
        ),
        "images": attr.label_list(
            doc = "Targets whose device images go into the bundle, in this order.",
            mandatory = True,
            providers = [OffloadImagesInfo],
        ),
        "out": attr.string(
            doc = "File name of the bundle; the target's name with `.hipfb` if empty.",
        ),
        "type": attr.string(
            doc = "File type of the entries, as `clang-offload-bundler -type` names it.",
            default = "o",
            values = ["o", "bc"],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadBundleInfo],
)
