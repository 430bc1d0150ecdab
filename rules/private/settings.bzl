"""The values of the settings that many rules read. A target has one dependency for all of them."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":flag_settings.bzl", "FlagBeginningsInfo")
load(":messages.bzl", "flag_of")

# The settings with flags, whose values are tables.
_TABLES = ["device_keep_copts", "host_skip_copts"]

_VALUES = [
    "bundle_version",
    "compress",
    "compression_level",
    "device_compiler",
    "device_copts",
    "explain_flags",
    "incremental",
    "lto",
    "optimization_records",
    "track_headers",
    "validation",
]

SettingsInfo = provider(
    doc = "The values of settings.",
    fields = {name: "The value of `//rules/settings:{}`.".format(name) for name in _VALUES} |
             {name: "Result of `flag_table` for `//rules/settings:{}`.".format(name) for name in _TABLES},
)

def _settings_impl(ctx):
    values = {name: getattr(ctx.attr, "_" + name)[BuildSettingInfo].value for name in _VALUES}
    tables = {name: getattr(ctx.attr, "_" + name)[FlagBeginningsInfo].table for name in _TABLES}
    return [SettingsInfo(**(values | tables))]

settings = rule(
    implementation = _settings_impl,
    doc = "Reads the settings.",
    attrs = {"_" + name: attr.label(default = "//rules/settings:" + name) for name in _VALUES + _TABLES},
)

# The attribute of a rule that reads settings.
SETTINGS_ATTRS = {
    "_settings": attr.label(
        default = "//rules/private:settings",
        providers = [SettingsInfo],
    ),
}

def settings_of(ctx):
    """Returns the values of the settings.

    Args:
      ctx: the rule's context; the rule has `SETTINGS_ATTRS`.

    Returns:
      a SettingsInfo.
    """
    return ctx.attr._settings[SettingsInfo]

def setting_flag(name):
    """Returns the flag of a setting as users write it.

    Args:
      name: name of the setting.

    Returns:
      a string.
    """
    return flag_of(Label("//rules/settings:" + name))
