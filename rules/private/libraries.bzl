"""What rules have in common whose sources have device code and host code: a library for C++ programs."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":device_link.bzl", "DEVICE_LINKOPTS_DOC")
load(":flags.bzl", "COMPILER_INPUTS_ATTRS", "LINKER_INPUTS_ATTRS")
load(":linking.bzl", "linked_cc_info")

# The attributes of such a rule, beside srcs.
LIBRARY_ATTRS = COMPILER_INPUTS_ATTRS | LINKER_INPUTS_ATTRS | {
    "copts": attr.string_list(
        doc = "More compiler flags, for host and device code.",
    ),
    "data": attr.label_list(
        doc = "Files that programs need when they run.",
        allow_files = True,
    ),
    "defines": attr.string_list(
        doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`, also for dependents.",
    ),
    "deps": attr.label_list(
        doc = "Libraries that the sources include headers of, and that are linked with them.",
        providers = [CcInfo],
    ),
    "device_copts": attr.string_list(
        doc = "More compiler flags for device code, after `copts`.",
    ),
    "device_linkopts": attr.string_list(
        doc = DEVICE_LINKOPTS_DOC,
    ),
    "hdrs": attr.label_list(
        doc = "Headers that the sources and dependents include, by their path in the workspace.",
        allow_files = True,
    ),
    "host_copts": attr.string_list(
        doc = "More compiler flags for host code, after `copts`.",
    ),
    "includes": attr.string_list(
        doc = "Folders of this package that the compiler looks in for headers, `.` for the package itself; also for dependents.",
    ),
}

def runfiles_of(ctx, files, deps):
    """The files that programs need when they run.

    Args:
      ctx: the rule's context.
      files: list of the rule's own Files among them.
      deps: list of the Targets that are linked, and of data.

    Returns:
      runfiles.
    """
    return ctx.runfiles(files).merge_all([dep[DefaultInfo].default_runfiles for dep in deps])

def library_providers(ctx, *, headers, objects, runtime):
    """What such a rule gives to C++ programs.

    Args:
      ctx: the rule's context; the rule has `LIBRARY_ATTRS` and uses the C++ toolchain.
      headers: what `headers_of` gave.
      objects: list of position-independent objects.
      runtime: the Target that programs are linked with, for all that launches device code.

    Returns:
      a DefaultInfo and a CcInfo.
    """
    deps = ctx.attr.deps + [dep for dep in getattr(ctx.attr, "device_deps", []) if CcInfo in dep]
    own = cc_common.create_compilation_context(
        defines = depset(headers.own_defines),
        headers = depset(ctx.files.hdrs),
        includes = headers.own_includes,
        quote_includes = headers.own_quote_includes,
    )
    return [
        DefaultInfo(
            files = depset(objects),
            runfiles = runfiles_of(ctx, ctx.files.data, deps + [runtime] + ctx.attr.data),
        ),
        linked_cc_info(
            ctx,
            compilation_context = cc_common.merge_compilation_contexts(
                compilation_contexts = [own] + [dep[CcInfo].compilation_context for dep in deps],
            ),
            deps = [dep[CcInfo] for dep in deps + [runtime]],
            objects = objects,
        ),
    ]
