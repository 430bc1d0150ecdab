"""The flag that the config_settings of //rules/arch compare."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")

_NONE = """this build is not for a single architecture: a select on @rules_offload//rules/arch would take its default branch for all of them.
Depend on the target through offload_per_arch(images = [...]), and set tags = ["manual"], so that //... does not build it directly.
With if_arch({...}) instead of the select, target_compatible_with = requires_arch() skips it.
Or use arch_srcs and arch_copts, which do not require a select."""

_ATTRS = {
    "_arch": attr.label(default = "//rules/settings:offload_arch"),
}

def _processor(ctx):
    """Returns the processor of the current architecture, `gfx90a` of `gfx90a:xnack+`; empty outside of offload_per_arch."""
    return ctx.attr._arch[BuildSettingInfo].value.split(":")[0]

def _current_processor_impl(ctx):
    processor = _processor(ctx)
    if not processor:
        fail(_NONE)
    return [config_common.FeatureFlagInfo(value = processor)]

def _split_impl(ctx):
    processor = _processor(ctx)
    return [config_common.FeatureFlagInfo(value = processor if ctx.attr.named else "yes" if processor else "no")]

split = rule(
    implementation = _split_impl,
    doc = "Whether a target is built as a dependency of an offload_per_arch (`yes`, `no`), or for which processor; empty in other builds.",
    attrs = _ATTRS | {
        "named": attr.bool(doc = "Whether the value is the processor."),
    },
)

current_processor = rule(
    implementation = _current_processor_impl,
    doc = "The processor that a dependency of an offload_per_arch is built for. In other builds, a select on it fails.",
    attrs = _ATTRS,
)
