"""Splits the debug information of device code off."""

load(":messages.bzl", "file_name")
load(":program.bzl", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "LINK_GROUP")

# The attribute of a rule that links device code.
DEBUG_INFO_ATTRS = {
    "split_debug_info": attr.bool(
        doc = "Whether to move the debug information of device code for AMD GPUs to files of their own, in the output group `debug_info`, " +
              "as `--fission` does for C++. The device code has a section `.gnu_debuglink`, by which debuggers and `llvm-symbolizer` find them. " +
              "Without it, bundles and programs contain the debug information of `-c dbg` and `-g`.",
    ),
}

def split_debug_info(ctx, target, out):
    """Registers the action that splits the debug information of linked device code off, if the target asks for it.

    Args:
      ctx: the rule's context; the rule has `DEBUG_INFO_ATTRS` and `CLANG_GROUPS`.
      target: struct returned by `target_ids.complete`.
      out: the File of the device code.

    Returns:
      two Files: the output of the link, which is `out` if nothing is split, and the debug information, None if
      nothing is split.
    """
    if not ctx.attr.split_debug_info or not target.target_id or not target_ids.is_amdgpu(target.triple):
        return out, None
    whole = ctx.actions.declare_file(out.basename + ".whole", sibling = out)

    # Debuggers find the file by its name only.
    place = out.short_path.removeprefix(ctx.label.package + "/").rpartition(".")[0]
    debug_info = ctx.actions.declare_file(place.replace("/", ".") + ".debug", sibling = out)
    args = offload_arguments(ctx, "split-debug")
    args.add(whole, format = "--input=%s")
    args.add(out, format = "--output=%s")
    args.add(debug_info, format = "--debug-info=%s")
    run_offload(
        ctx,
        arguments = [args],
        group = LINK_GROUP,
        inputs = [whole],
        mnemonic = "OffloadSplitDebug",
        outputs = [out, debug_info],
        progress_message = "Splitting the debug information of " + file_name(out),
    )
    return whole, debug_info
