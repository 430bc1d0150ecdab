"""Whether and how bundles are compressed."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")

# The attributes of a rule that makes a bundle.
COMPRESSION_ATTRS = {
    "bundle_version": attr.int(
        doc = "Version of the container of a compressed bundle: 3, or 2 for ROCm before 7. If 0, the setting `//rules/settings:bundle_version`.",
    ),
    "compress": attr.string(
        doc = "`zstd`, `none`, or `auto`: what the setting `//rules/settings:compress` says, which is by default `zstd` with `-c opt` and `none` otherwise.",
        default = "auto",
        values = ["auto", "none", "zstd"],
    ),
    "compression_level": attr.int(
        doc = "From 1, fast, to 22, small. If 0, the setting `//rules/settings:compression_level`.",
    ),
    "_bundle_version": attr.label(default = "//rules/settings:bundle_version"),
    "_compress": attr.label(default = "//rules/settings:compress"),
    "_compression_level": attr.label(default = "//rules/settings:compression_level"),
}

def add_compression(ctx, args, where):
    """Adds the flags of the verb `bundle` for compression.

    Args:
      ctx: the rule's context; the rule has `COMPRESSION_ATTRS`.
      args: an `Args`.
      where: `label: rule` to begin a message with.

    Returns:
      whether the bundle is compressed.
    """
    compress = ctx.attr.compress
    if compress == "auto":
        compress = ctx.attr._compress[BuildSettingInfo].value
    if compress == "auto":
        compress = "zstd" if ctx.var["COMPILATION_MODE"] == "opt" else "none"
    version = ctx.attr.bundle_version or ctx.attr._bundle_version[BuildSettingInfo].value
    level = ctx.attr.compression_level or ctx.attr._compression_level[BuildSettingInfo].value
    if version not in (2, 3):
        fail("{}: bundle_version is {}: it is 3, or 2 for ROCm before 7".format(where, version))
    if level < 0 or level > 22:
        fail("{}: compression_level is {}: it is from 1 to 22, or 0 for the default".format(where, level))
    if compress == "none":
        return False
    args.add("--compress")
    args.add(version, format = "--format-version=%s")
    if level:
        args.add(level, format = "--level=%s")
    return True
