"""The action that makes a bundle."""

load("//rules:providers.bzl", "OffloadBundleInfo")
load(":compression.bzl", "add_compression")
load(":messages.bzl", "name_of")
load(":program.bzl", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

def bundle_images(ctx, *, where, images, out, host = "", type = "o", alignment = 4096):
    """Registers the action that makes a bundle.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS` and `COMPRESSION_ATTRS`.
      where: `label: rule` to begin a message with.
      images: list of `offload_image()`.
      out: the bundle.
      host: triple of the empty host entry; empty for none.
      type: file type of the entries.
      alignment: of the entries, in bytes.

    Returns:
      an OffloadBundleInfo.
    """
    if alignment < 1:
        fail("{}: alignment is {}; it is a number of bytes, 1 or more".format(where, alignment))
    for image in images:
        if image.kind not in target_ids.bundle_kinds:
            fail("{}: images: {} gives an image of kind {}; bundles have {}".format(where, name_of(image.label), image.kind, ", ".join(target_ids.bundle_kinds)))
    target_ids.check(images, where)

    args = offload_arguments(ctx, "bundle")
    args.add("--type", type)
    args.add("--align", alignment)
    compressed = add_compression(ctx, args, where)
    args.add(out, format = "--output=%s")
    entry_ids = []
    if host:
        entry_ids.append("host-{}-".format(host))
        args.add(entry_ids[0], format = "--entry=%s=")
    for image in images:
        entry_ids.append(image.id)
        args.add(image.file, format = "--entry={}=%s".format(image.id))
    run_offload(
        ctx,
        arguments = args,
        coding = compressed,
        inputs = [image.file for image in images],
        mnemonic = "OffloadBundle",
        outputs = [out],
        progress_message = "Bundling device images %{label}",
    )
    return OffloadBundleInfo(
        compressed = compressed,
        entry_ids = entry_ids,
        file = out,
        type = type,
    )
