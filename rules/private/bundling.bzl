"""The actions that create a bundle: a single one, or several whose results are cached."""

load("//rules:providers.bzl", "OffloadBundleInfo")
load(":images.bzl", "add_entries")
load(":messages.bzl", "file_name", "name_of")
load(":processors.bzl", "CODE_FAMILIES")
load(":program.bzl", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

def _bundle_whole(ctx, *, alignment, compression, content, empty, images, out, program, type):
    args = offload_arguments(ctx, "bundle", ["--type", type, "--align", str(alignment)])
    if compression:
        args.add("--compress")
        args.add_all(compression.version_flags)
        args.add_all(compression.flags)
    args.add(out, format = "--output=%s")
    add_entries(args, empty, images)
    run_offload(
        ctx,
        arguments = [args],
        coding = bool(compression),
        inputs = [image.file for image in images],
        mnemonic = "OffloadBundle",
        outputs = [out],
        program = program,
        progress_message = "Bundling " + content,
    )

def _family(image):
    """Returns the family of processors with similar code; the program divides large bundles between families."""
    processor = image.target_id.split(":")[0]
    return CODE_FAMILIES.get(processor, processor) if processor.startswith("gfx") else ""

def _family_runs(images):
    """Groups adjacent images of the same family."""
    runs = []
    for image in images:
        if not runs or _family(runs[-1][-1]) != _family(image):
            runs.append([])
        runs[-1].append(image)
    return runs

def _bundle_parts(ctx, *, alignment, compression, content, empty, images, out, runs):
    # Only the plan reads all images. The plan and the parts are created in parallel,
    # and the last action reads only their small results.
    parts = []
    for number, run in enumerate(runs):
        part = ctx.actions.declare_file("{}.{}.part".format(out.basename, number), sibling = out)
        args = offload_arguments(ctx, "compress-part")
        args.add("--align", alignment)
        args.add_all(compression.flags)
        if number + 1 < len(runs):
            args.add("--pad")
        args.add(part, format = "--output=%s")
        files = [image.file for image in run]
        args.add_all(files)
        run_offload(
            ctx,
            arguments = [args],
            inputs = files,
            mnemonic = "OffloadCompressPart",
            one_frame = True,
            outputs = [part],
            progress_message = "Compressing {}, part {} of {}".format(content, number + 1, len(runs)),
        )
        parts.append(part)

    plan = ctx.actions.declare_file(out.basename + ".plan", sibling = out)
    args = offload_arguments(ctx, "compress-plan")
    args.add("--align", alignment)
    args.add_all(compression.flags)
    args.add(plan, format = "--output=%s")
    add_entries(args, empty, images)
    run_offload(
        ctx,
        arguments = [args],
        inputs = [image.file for image in images],
        mnemonic = "OffloadCompressPlan",
        outputs = [plan],
        progress_message = "Planning the bundle of " + content,
    )

    args = offload_arguments(ctx, "assemble")
    args.add(plan, format = "--plan=%s")
    args.add_all(compression.version_flags)
    args.add(out, format = "--output=%s")
    args.add_all(parts)
    run_offload(
        ctx,
        arguments = [args],
        inputs = [plan] + parts,
        mnemonic = "OffloadBundle",
        one_frame = True,
        outputs = [out],
        progress_message = "Bundling " + content,
    )

def bundle_images(ctx, *, where, images, out, compression, host = "", source = None, type = "o", alignment = 4096, program = None):
    """Registers the actions that create a bundle.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS`.
      where: prefix of error messages, `label: rule`.
      images: list of `offload_image()`.
      out: the bundle.
      compression: result of `compression_of`.
      host: triple of the empty host entry; empty for none.
      source: the File whose device code the bundle has, for progress messages; None for the code of the target.
      type: file type of the entries.
      alignment: alignment of the entries, in bytes.
      program: as for `run_offload`.

    Returns:
      an OffloadBundleInfo.
    """
    if alignment < 1:
        fail("{}: alignment is {}, expected a number of bytes, 1 or more".format(where, alignment))
    for image in images:
        if image.kind not in target_ids.bundle_kinds:
            fail("{}: images: {} has an image of kind {}, expected one of {}".format(where, name_of(image.label), image.kind, ", ".join(target_ids.bundle_kinds)))
    target_ids.check(images, where)

    empty = ["host-" + host + "-"] if host else []
    in_parts = compression and compression.incremental and "host" not in [image.kind for image in images]
    runs = _family_runs(images) if in_parts else []
    content = ("device images of " + file_name(source) + " in " if source else "device images ") + "%{label}"
    if len(runs) > 1:
        _bundle_parts(ctx, alignment = alignment, compression = compression, content = content, empty = empty, images = images, out = out, runs = runs)
    else:
        _bundle_whole(ctx, alignment = alignment, compression = compression, content = content, empty = empty, images = images, out = out, program = program, type = type)
    return OffloadBundleInfo(
        compressed = bool(compression),
        entry_ids = empty + [image.id for image in images],
        file = out,
        type = type,
    )
