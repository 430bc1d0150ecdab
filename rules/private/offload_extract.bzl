"""offload_extract: device images out of any file."""

load("//rules:providers.bzl", "OffloadImagesInfo", "offload_image")
load(":messages.bzl", "place")
load(":offload_binary.bzl", "image_properties")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

def _offload_extract_impl(ctx):
    where = place(ctx, "offload_extract")
    if not ctx.attr.targets:
        fail("{}: targets is empty: name the targets to take out, e.g. [\"gfx942\"]".format(where))
    args = offload_arguments(ctx, "extract")
    images = []
    groups = {}
    for target in target_ids.complete_all(ctx.attr.kind, ctx.attr.targets, where, "targets"):
        name = target.target_id or target.triple.removesuffix("-")
        if name in groups:
            name = target_ids.entry_id(target.kind, target.triple, target.target_id)
        out = ctx.actions.declare_file("{}/{}.{}".format(ctx.label.name, target_ids.file_name(name), ctx.attr.extension))
        image = offload_image(
            file = out,
            kind = target.kind,
            label = ctx.label,
            target_id = target.target_id,
            triple = target.triple,
        )
        args.add(out, format = "--image=file=%s," + image_properties(image, where))
        images.append(image)
        groups[name] = depset([out])
    args.add(ctx.file.src)
    outputs = [image.file for image in images]
    run_offload(
        ctx,
        arguments = args,
        inputs = [ctx.file.src],
        mnemonic = "OffloadExtract",
        outputs = outputs,
        progress_message = "Extracting device images %{label}",
    )
    return [
        DefaultInfo(files = depset(outputs)),
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(**groups),
    ]

offload_extract = rule(
    implementation = _offload_extract_impl,
    doc = """Takes device images out of an object, a program, a library, an archive, bitcode, an offload binary or a bundle.

A target that no image is for fails the build, and so does one that several images are for.
""",
    attrs = {
        "extension": attr.string(
            doc = "Extension of the files.",
            default = "co",
        ),
        "kind": attr.string(
            doc = "Offload kind of targets given in short form.",
            default = "hip",
            values = ["hip", "hipv4", "openmp", "cuda", "sycl"],
        ),
        "src": attr.label(
            doc = "The file.",
            mandatory = True,
            allow_single_file = True,
        ),
        "targets": attr.string_list(
            doc = "Target IDs such as `gfx90a:xnack+`, or whole entry IDs such as `openmp-x86_64-pc-linux-gnu-`.",
            mandatory = True,
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [OffloadImagesInfo],
)
