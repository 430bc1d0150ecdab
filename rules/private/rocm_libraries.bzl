"""The libraries of the ROCm of the device compiler, by labels that do not depend on the repository of the compiler."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":messages.bzl", "name_of")

ROCM_TYPE = Label("//rules/toolchain:rocm_type")

def _rocm_libraries_impl(ctx):
    return [platform_common.ToolchainInfo(
        libraries = {name: target for target, name in ctx.attr.libraries.items()},
        where = ctx.attr.where,
    )]

rocm_libraries = rule(
    implementation = _rocm_libraries_impl,
    doc = "The libraries of a ROCm, for the targets in `//rocm`.",
    attrs = {
        "libraries": attr.label_keyed_string_dict(doc = "The libraries, and their names in `//rocm`.", providers = [CcInfo]),
        "where": attr.string(doc = "What has the libraries, for the message about a missing one.", mandatory = True),
    },
)

_NO_TOOLCHAIN = "no registered device compiler supports the execution platforms: see docs/toolchains.md"

def _current_rocm_library_impl(ctx):
    toolchain = ctx.toolchains[ROCM_TYPE]
    if not toolchain:
        fail("{}: {}".format(name_of(ctx.label), _NO_TOOLCHAIN))
    library = toolchain.libraries.get(ctx.label.name)
    if not library:
        fail("{}: {} is not in {}{}: install it there, or use another ROCm (docs/toolchains.md)".format(
            name_of(ctx.label),
            ctx.label.name,
            toolchain.where,
            ", which has " + ", ".join(sorted(toolchain.libraries)) if toolchain.libraries else "",
        ))
    return [
        DefaultInfo(files = library[DefaultInfo].files, runfiles = library[DefaultInfo].default_runfiles),
        library[CcInfo],
        library[OutputGroupInfo],
    ]

current_rocm_library = rule(
    implementation = _current_rocm_library_impl,
    doc = "The library of this name in the ROCm of the device compiler.",
    provides = [CcInfo],
    toolchains = [config_common.toolchain_type(ROCM_TYPE, mandatory = False)],
)
