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
    "incremental": attr.string(
        doc = "Whether a compressed bundle is made in parts, an action for each family of processors, so that a changed image compresses its " +
              "part alone; the bytes are the same. `on`, `off`, or `auto`: what the setting `//rules/settings:incremental` says, which is by " +
              "default `on` where `compress` is `zstd` and not `auto`. It takes images of two families, and is worth while from some 20 MB on.",
        default = "auto",
        values = ["auto", "off", "on"],
    ),
    "_bundle_version": attr.label(default = "//rules/settings:bundle_version"),
    "_compress": attr.label(default = "//rules/settings:compress"),
    "_compression_level": attr.label(default = "//rules/settings:compression_level"),
    "_incremental": attr.label(default = "//rules/settings:incremental"),
}

def compression_of(ctx, where):
    """What attributes and settings say about compression.

    Args:
      ctx: the rule's context; the rule has `COMPRESSION_ATTRS`.
      where: `label: rule` to begin a message with.

    Returns:
      None if the bundle is not compressed, or a struct with
      flags: of the verbs that compress;
      incremental: whether to make the bundle in parts;
      version_flags: of the verbs that write the container.
    """
    compress = ctx.attr.compress
    if compress == "auto":
        compress = ctx.attr._compress[BuildSettingInfo].value
    if compress == "auto":
        compress = "zstd" if ctx.var["COMPILATION_MODE"] == "opt" else "none"
    incremental = ctx.attr.incremental
    if incremental == "auto":
        incremental = ctx.attr._incremental[BuildSettingInfo].value
    if incremental == "auto":
        # Who asks for it here has a large bundle; those that a setting compresses
        # may be thousands of small ones.
        incremental = "on" if ctx.attr.compress == "zstd" else "off"
    version = ctx.attr.bundle_version or ctx.attr._bundle_version[BuildSettingInfo].value
    level = ctx.attr.compression_level or ctx.attr._compression_level[BuildSettingInfo].value
    if version not in (2, 3):
        fail("{}: bundle_version is {}: it is 3, or 2 for ROCm before 7".format(where, version))
    if level < 0 or level > 22:
        fail("{}: compression_level is {}: it is from 1 to 22, or 0 for the default".format(where, level))
    if compress == "none":
        return None
    return struct(
        flags = ["--level={}".format(level)] if level else [],
        incremental = incremental == "on",
        version_flags = ["--format-version={}".format(version)],
    )
