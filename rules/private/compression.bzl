"""Compression of bundles."""

load(":settings.bzl", "SETTINGS_ATTRS", "setting_flag", "settings_of")

# The level that the program uses by default.
_DEFAULT_LEVEL = "fast"

_LEVELS = [_DEFAULT_LEVEL, "small"] + [str(number) for number in range(1, 23)]

# The attributes of a rule that creates a bundle.
COMPRESSION_ATTRS = SETTINGS_ATTRS | {
    "bundle_version": attr.int(
        doc = "Version of the compressed bundle format: 3, or 2 for ROCm before 7. If 0, the value of the setting `//rules/settings:bundle_version`.",
    ),
    "compress": attr.string(
        doc = "`zstd`, `none`, or `auto`, which uses the setting `//rules/settings:compress`. By default, the setting selects `zstd` with `-c opt` and `none` otherwise.",
        default = "auto",
        values = ["auto", "none", "zstd"],
    ),
    "compression_level": attr.string(
        doc = "`fast`, `small`, or a level of LLVM's tools: `1` to `6` mean `fast`, `7` to `22` mean `small`. If empty, the value of the setting `//rules/settings:compression_level`.",
    ),
    "incremental": attr.string(
        doc = "Whether to build a compressed bundle in parts, with an action for each family of processors. A changed image then recompresses " +
              "only its part; the output is the same. `on`, `off`, or `auto`, which uses the setting `//rules/settings:incremental`. By default, the " +
              "setting selects `on` if `compress` is `zstd` and not `auto`. Requires images of at least two families; useful from about 20 MB.",
        default = "auto",
        values = ["auto", "off", "on"],
    ),
}

def compression_of(ctx, where):
    """Returns the compression options from the attributes and settings of a rule.

    Args:
      ctx: the rule's context; the rule has `COMPRESSION_ATTRS`.
      where: prefix of error messages, `label: rule`.

    Returns:
      None if the bundle is not compressed, or a struct with
      flags: flags of the commands that compress;
      incremental: whether to build the bundle in parts;
      version_flags: flags of the commands that write the container.
    """
    settings = settings_of(ctx)
    compress = ctx.attr.compress
    if compress == "auto":
        compress = settings.compress
    if compress == "auto":
        compress = "zstd" if ctx.var["COMPILATION_MODE"] == "opt" else "none"
    incremental = ctx.attr.incremental
    if incremental == "auto":
        incremental = settings.incremental
    if incremental == "auto":
        # A target that sets compress has a large bundle. A setting may compress
        # thousands of small bundles.
        incremental = "on" if ctx.attr.compress == "zstd" else "off"
    version = ctx.attr.bundle_version or settings.bundle_version
    level = ctx.attr.compression_level or settings.compression_level
    if version not in (2, 3):
        fail("{}: bundle_version is {}, expected 3, or 2 for ROCm before 7".format(where, version))
    if level not in _LEVELS:
        by = "" if ctx.attr.compression_level else " (the setting {})".format(setting_flag("compression_level"))
        fail("{}: compression_level is {}{}, expected \"fast\", \"small\", or a level of LLVM's tools from \"1\" to \"22\"".format(where, repr(level), by))
    if compress == "none":
        return None
    return struct(
        flags = ["--level=" + level] if level != _DEFAULT_LEVEL else [],
        incremental = incremental == "on",
        version_flags = ["--format-version={}".format(version)],
    )
