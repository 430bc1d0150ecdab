"""Validation actions, which run in parallel to the build."""

load(":images.bzl", "add_entries")
load(":program.bzl", "offload_arguments", "run_offload")
load(":settings.bzl", "SETTINGS_ATTRS", "settings_of")
load(":sizes.bzl", "parse_size")

# The attributes of a rule that validates its bundle.
VALIDATION_ATTRS = SETTINGS_ATTRS | {
    "max_size": attr.string(
        doc = "Maximum size of the file, after compression if it is compressed: an integer and a unit from `B` to `TB` or `TiB`, such as `500MiB`. A larger file fails the validation. If empty, the size is not limited.",
    ),
}

def validate_bundle(ctx, *, where, bundle, images, linked = False, program = None):
    """Registers the action that reads and validates a bundle.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS` and `VALIDATION_ATTRS`.
      where: prefix of error messages, `label: rule`.
      bundle: the OffloadBundleInfo.
      images: list of the `offload_image()` in it.
      linked: whether the bundle becomes part of a program.
      program: as for `run_offload`.

    Returns:
      list of Files for the output group `_validation`.
    """
    max_size = parse_size(ctx.attr.max_size, where + ": max_size") if ctx.attr.max_size else 0
    if not settings_of(ctx).validation:
        return []
    report = ctx.actions.declare_file(bundle.file.basename + ".entries.json", sibling = bundle.file)
    flags = ["--max-size={}".format(max_size)] if max_size else []
    if linked:
        flags.append("--linked")
    if bundle.type == "o":
        flags.append("--device-code")
    args = offload_arguments(ctx, "check", flags)
    args.add(bundle.file, format = "--input=%s")
    args.add(report, format = "--output=%s")
    ids = {image.id: None for image in images}
    add_entries(args, [id for id in bundle.entry_ids if id not in ids], images)
    run_offload(
        ctx,
        arguments = [args],
        coding = bundle.compressed,
        inputs = [bundle.file] + [image.file for image in images],
        mnemonic = "OffloadCheck",
        outputs = [report],
        program = program,
        progress_message = "Checking the bundle of %{label}",
    )
    return [report]
