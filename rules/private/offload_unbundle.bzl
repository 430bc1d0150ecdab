"""offload_unbundle: device images out of a bundle."""

load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo", "offload_image")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

def _offload_unbundle_impl(ctx):
    where = place(ctx, "offload_unbundle")
    if not ctx.attr.targets:
        fail("{}: targets is empty: name the targets to take out, e.g. [\"gfx942\"]".format(where))

    targets = target_ids.complete_all(ctx.attr.kind, ctx.attr.targets, where, "targets")
    if OffloadBundleInfo in ctx.attr.bundle:
        target_ids.check_served(ctx.attr.bundle[OffloadBundleInfo].entry_ids, targets, where, name_of(ctx.attr.bundle.label))

    args = offload_arguments(ctx, "unbundle")
    args.add("--type", ctx.attr.type)
    args.add(ctx.file.bundle, format = "--input=%s")

    images = []
    groups = {}
    for target in targets:
        # Targets of several kinds can have one target ID.
        name = target.target_id or target.kind
        if name in groups:
            name = target_ids.entry_id(target.kind, target.triple, target.target_id)
        out = ctx.actions.declare_file("{}/{}.{}".format(
            ctx.label.name,
            target_ids.file_name(name),
            "bc" if ctx.attr.type == "bc" else "co",
        ))
        image = offload_image(
            file = out,
            kind = target.kind,
            label = ctx.label,
            target_id = target.target_id,
            triple = target.triple,
        )
        args.add(out, format = "--entry={}=%s".format(image.id))
        images.append(image)
        groups[name] = depset([out])

    outputs = [image.file for image in images]
    run_offload(
        ctx,
        arguments = args,
        inputs = [ctx.file.bundle],
        mnemonic = "OffloadUnbundle",
        outputs = outputs,
        progress_message = "Unbundling device images %{label}",
    )
    return [
        DefaultInfo(files = depset(outputs)),
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(**groups),
    ]

offload_unbundle = rule(
    implementation = _offload_unbundle_impl,
    doc = """Takes device images out of a bundle.

A target that the bundle has no entry for fails the build; the entry that serves
a target is chosen by LLVM's compatibility rules, and an exact match wins.
""",
    attrs = {
        "bundle": attr.label(
            doc = "The bundle: an `offload_bundle`, or a file.",
            mandatory = True,
            allow_single_file = True,
        ),
        "kind": attr.string(
            doc = "Offload kind of targets given in short form.",
            default = "hipv4",
            values = ["hip", "hipv4", "openmp"],
        ),
        "targets": attr.string_list(
            doc = "Target IDs such as `gfx90a:xnack+`, or whole entry IDs.",
            mandatory = True,
        ),
        "type": attr.string(
            doc = "File type of the bundle, as `clang-offload-bundler -type` names it.",
            default = "o",
            values = ["o", "bc"],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadImagesInfo],
)
