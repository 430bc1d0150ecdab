"""What targets without features of their own take from the C++ toolchain."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load(":cc_flags.bzl", "CcDefaultsInfo", "cc_configuration", "compute_flags")
load(":settings.bzl", "SETTINGS_ATTRS", "settings_of")
load(":toolchains.bzl", "CLANG_GROUPS", "COMPILE_GROUP")

def _cc_defaults_impl(ctx):
    configurations = []
    for group in [] if settings_of(ctx).explain_flags else [None, COMPILE_GROUP]:
        cc = cc_configuration(ctx, group, mandatory = False)
        if cc and cc.toolchain not in [other.toolchain for other in configurations]:
            compute_flags(ctx, cc)
            configurations.append(cc)
    return [CcDefaultsInfo(
        configurations = configurations,
        features = (ctx.features, ctx.disabled_features),
    )]

cc_defaults = rule(
    implementation = _cc_defaults_impl,
    doc = "Computes the flags of the C++ toolchain, for its compilations and for those of device compilers.",
    attrs = SETTINGS_ATTRS,
    exec_groups = {COMPILE_GROUP: CLANG_GROUPS[COMPILE_GROUP]},
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(mandatory = False),
)
