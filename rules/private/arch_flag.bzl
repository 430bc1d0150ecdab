"""The flag that the config_settings of //rules/arch compare."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")

_NONE = """this build is not for a single architecture: a select on @rules_offload//rules/arch would take its default branch for all of them.
Depend on the target through offload_per_arch(images = [...]), and set tags = ["manual"], so that //... does not build it directly.
Or use arch_srcs and arch_copts, which do not require a select."""

def _current_processor_impl(ctx):
    processor = ctx.attr._processor[BuildSettingInfo].value
    if not processor:
        fail(_NONE)
    return [config_common.FeatureFlagInfo(value = processor)]

current_processor = rule(
    implementation = _current_processor_impl,
    doc = "The processor that a dependency of an offload_per_arch is built for. In other builds, a select on it fails.",
    attrs = {
        "_processor": attr.label(default = "//rules/settings:offload_processor"),
    },
)
