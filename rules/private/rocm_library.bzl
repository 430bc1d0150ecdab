"""Libraries of ROCm for C++ programs: headers, shared libraries, and files that they load at run time."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":arch_groups.bzl", "expand_archs")
load(":cc_flags.bzl", "cc_configuration")
load(":cc_infos.bzl", "link_info")
load(":native.bzl", "OffloadNativeInfo")
load(":processors.bzl", "FEATURE_NAMES")

_RequiredInfo = provider(
    doc = "A shared library and those that it requires.",
    fields = {
        "files": "Depset of Files: the libraries.",
        "runfiles": "Depset of Files: the libraries, where programs find them.",
    },
)

def _rocm_shared_library_impl(ctx):
    cc = cc_configuration(ctx)
    library = cc_common.create_library_to_link(
        actions = ctx.actions,
        cc_toolchain = cc.toolchain,
        dynamic_library = ctx.file.library,
        # Libraries of one ROCm keep their relative locations, because they look for each other relative to themselves.
        dynamic_library_symlink_path = "{}/{}".format(ctx.label.repo_name or "rocm", ctx.file.library.short_path.removeprefix("../").partition("/")[2]),
        feature_configuration = cc.features,
    )

    # As with hipcc, programs do not name what only their libraries require: the linker and the loader find it.
    required = depset(transitive = [dep[_RequiredInfo].files for dep in ctx.attr.deps])
    runfiles = depset([library.dynamic_library], transitive = [dep[_RequiredInfo].runfiles for dep in ctx.attr.deps])
    files = required.to_list()
    return [
        DefaultInfo(files = depset([ctx.file.library]), runfiles = ctx.runfiles(transitive_files = runfiles)),
        _RequiredInfo(files = depset([ctx.file.library], transitive = [required]), runfiles = runfiles),
        link_info(
            ctx,
            files = files,
            flags = ["-Wl,-rpath-link," + folder for folder in {file.dirname: None for file in files}],
            libraries = [library],
        ),
    ]

rocm_shared_library = rule(
    implementation = _rocm_shared_library_impl,
    doc = "A shared library of ROCm. Programs are linked with it, and have the shared libraries that it requires as runfiles.",
    attrs = {
        "deps": attr.label_list(providers = [_RequiredInfo], doc = "The shared libraries that it requires."),
        "library": attr.label(allow_single_file = True, mandatory = True, doc = "The file, with the name that programs look for."),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)

_HEX = "0123456789abcdef"

def processor_of(name):
    """Returns the processor that a file is for.

    Args:
      name: base name of the file, such as `TensileLibrary_gfx90a.co` or `gfx942130.db.txt`.

    Returns:
      `gfx` and the longest run of hexadecimal digits after the last `gfx` in the name, such as `gfx90a`; empty if the name
      has none. In names of MIOpen, the number of compute units follows.
    """
    _, found, rest = name.rpartition("gfx")
    digits = rest
    for i in range(len(rest)):
        if rest[i] not in _HEX:
            digits = rest[:i]
            break
    return "gfx" + digits if found and digits else ""

def serves(name, archs):
    """Reports whether programs for some architectures can use a file.

    Args:
      name: base name of the file.
      archs: list of target IDs; empty for all.

    Returns:
      True if the file is not for a specific processor, or if it is for the processor of one of the architectures and does
      not have an opposite setting of a feature.
    """
    processor = processor_of(name)
    if not archs or not processor:
        return True
    for arch in archs:
        if "-" in arch.split(":")[0] or not arch.startswith("gfx"):
            # Code for a generic processor and portable code can run on any GPU.
            return True
        if not processor.startswith(arch.split(":")[0]):
            continue
        if not any([opposite in name for opposite in _opposites(arch)]):
            return True
    return False

def _opposites(arch):
    """Returns the settings that code for a target ID cannot have: `xnack-` for `gfx90a:xnack+`."""
    return [
        name + {"+": "-", "-": "+"}[sign]
        for name in FEATURE_NAMES
        for sign in ("+", "-")
        if name + sign in arch.split(":")[1:]
    ]

def _rocm_library_impl(ctx):
    archs = expand_archs(ctx.attr._offload_archs[BuildSettingInfo].value, ctx.attr._native[OffloadNativeInfo].archs)
    data = [file for file in ctx.files.data if serves(file.basename, archs)]
    folder = ctx.label.workspace_root + "/" + ctx.attr.include if ctx.label.workspace_root else ctx.attr.include
    context = cc_common.create_compilation_context(
        defines = depset(ctx.attr.defines),
        headers = depset(ctx.files.hdrs),
        system_includes = depset([folder] if ctx.files.hdrs else []),
    )
    return [
        DefaultInfo(
            runfiles = ctx.runfiles(data).merge_all([dep[DefaultInfo].default_runfiles for dep in ctx.attr.deps]),
        ),
        link_info(ctx, context = context, deps = ctx.attr.deps, flags = ctx.attr.linkopts),
        OutputGroupInfo(data = depset(data)),
    ]

rocm_library = rule(
    implementation = _rocm_library_impl,
    doc = "A library of ROCm: its headers, the headers that they include, and its shared library.",
    attrs = {
        "data": attr.label_list(allow_files = True, doc = "Files that the library loads at run time. Files for processors that the build does not target are left out."),
        "defines": attr.string_list(doc = "Preprocessor definitions of dependents."),
        "deps": attr.label_list(providers = [CcInfo], doc = "Shared libraries."),
        "hdrs": attr.label_list(allow_files = True, doc = "The headers."),
        "include": attr.string(doc = "The include directory for dependents, relative to this repository."),
        "linkopts": attr.string_list(doc = "Linker flags of programs."),
        "_native": attr.label(default = "//rules/settings:native_archs", providers = [OffloadNativeInfo]),
        "_offload_archs": attr.label(default = "//rules/settings:offload_archs"),
    },
    provides = [CcInfo],
)
