"""offload_archive and offload_unbundle_archive: archives for several devices."""

load("//rules:providers.bzl", "OffloadImagesInfo", "offload_image")
load(":messages.bzl", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

def _offload_archive_impl(ctx):
    where = place(ctx, "offload_archive")
    if not ctx.files.bundles:
        fail("{}: bundles is empty: give it offload_bundle targets, or files".format(where))
    out = ctx.actions.declare_file(ctx.attr.out or "lib{}.a".format(ctx.label.name))
    args = offload_arguments(ctx, "archive")
    args.add("--check")
    args.add(out, format = "--output=%s")
    args.add_all(ctx.files.bundles)
    run_offload(
        ctx,
        arguments = args,
        inputs = ctx.files.bundles,
        mnemonic = "OffloadArchive",
        outputs = [out],
        progress_message = "Archiving device images %{label}",
    )
    return [DefaultInfo(files = depset([out]))]

offload_archive = rule(
    implementation = _offload_archive_impl,
    doc = """Puts bundles into a heterogeneous device archive: a static library of device code for several targets.

`offload_unbundle_archive`, and clang, take what a target needs out of it.
""",
    attrs = {
        "bundles": attr.label_list(
            doc = "Bundles and bundled objects: `offload_bundle` targets, or files. Each is a member of the archive.",
            mandatory = True,
            allow_files = True,
        ),
        "out": attr.string(
            doc = "File name of the archive; `libNAME.a` if empty.",
        ),
    },
    exec_groups = PROGRAM_GROUPS,
)

def _offload_unbundle_archive_impl(ctx):
    where = place(ctx, "offload_unbundle_archive")
    if not ctx.attr.targets:
        fail("{}: targets is empty: name the targets to take out, e.g. [\"gfx942\"]".format(where))
    args = offload_arguments(ctx, "unbundle-archive")
    args.add(ctx.file.archive, format = "--input=%s")
    if ctx.attr.allow_missing:
        args.add("--allow-missing")
    if ctx.attr.hip_openmp_compatible:
        args.add("--hip-openmp-compatible")
    images = []
    groups = {}
    for target in target_ids.complete_all(ctx.attr.kind, ctx.attr.targets, where, "targets"):
        name = target.target_id or target.triple.removesuffix("-")
        if name in groups:
            name = target_ids.entry_id(target.kind, target.triple, target.target_id)
        out = ctx.actions.declare_file("{}/{}.a".format(ctx.label.name, target_ids.file_name(name)))
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
        coding = True,
        inputs = [ctx.file.archive],
        mnemonic = "OffloadUnbundleArchive",
        outputs = outputs,
        progress_message = "Unbundling the device archive %{label}",
    )
    return [
        DefaultInfo(files = depset(outputs)),
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(**groups),
    ]

offload_unbundle_archive = rule(
    implementation = _offload_unbundle_archive_impl,
    doc = """Takes the images that serve targets out of a heterogeneous device archive, into an archive for each target.

A member serves a target by LLVM's compatibility rules: code for `gfx906` serves `gfx906:xnack+`.
""",
    attrs = {
        "allow_missing": attr.bool(
            doc = "Make an empty archive for a target that nothing serves, instead of failing.",
        ),
        "archive": attr.label(
            doc = "The archive: an `offload_archive`, or a file.",
            mandatory = True,
            allow_single_file = True,
        ),
        "hip_openmp_compatible": attr.bool(
            doc = "Code of the kinds hip and hipv4 serves openmp, and the other way round.",
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
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadImagesInfo],
)
