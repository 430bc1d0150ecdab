"""Common code of rules that compile sources with device and host code to a library for C++ programs."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "ARCH_COPTS_ATTRS", "DEVICE_LINKOPTS_ATTRS")
load(":compilation.bzl", "compile", "parse_step")
load(":device_link.bzl", "device_link", "merge_objects_step")
load(":flags.bzl", "COMPILER_INPUTS_ATTRS", "LINKER_INPUTS_ATTRS", "expand_flags")
load(":linking.bzl", "host_triple", "linked_cc_info")
load(":messages.bzl", "name_of")
load(":sources.bzl", "object_names", "private_headers_of")

# The attributes of such a rule, except srcs.
LIBRARY_ATTRS = ARCH_COPTS_ATTRS | COMPILER_INPUTS_ATTRS | DEVICE_LINKOPTS_ATTRS | LINKER_INPUTS_ATTRS | {
    "alwayslink": attr.bool(
        doc = "As in `cc_library`: whether programs include objects that they do not refer to. An object that a program includes brings its kernels and their registration.",
    ),
    "copts": attr.string_list(
        doc = "Additional compiler flags for host and device code.",
    ),
    "data": attr.label_list(
        doc = "Files that programs require at run time.",
        allow_files = True,
    ),
    "defines": attr.string_list(
        doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`, for this target and its dependents.",
    ),
    "deps": attr.label_list(
        doc = "Libraries whose headers the sources include, and that are linked with them.",
        providers = [CcInfo],
    ),
    "device_copts": attr.string_list(
        doc = "Additional compiler flags for device code, after `copts`.",
    ),
    "hdrs": attr.label_list(
        doc = "Headers that the sources and dependents include, by their path relative to the workspace.",
        allow_files = True,
    ),
    "host_copts": attr.string_list(
        doc = "Additional compiler flags for host code, after `copts`.",
    ),
    "implementation_deps": attr.label_list(
        doc = "Libraries whose headers only the sources include, not the dependents. They are linked in the same way as `deps`.",
        providers = [CcInfo],
    ),
    "include_prefix": attr.string(
        doc = "Prefix to add to the paths of `hdrs` in `#include`, after `strip_include_prefix` is removed.",
    ),
    "includes": attr.string_list(
        doc = "Directories to add to the include path of this target and its dependents, relative to the package; `.` is the package itself.",
    ),
    "linkopts": attr.string_list(
        doc = "Additional linker flags of programs that depend on this target.",
    ),
    "linkstatic": attr.bool(
        doc = "Unlike in `cc_library`, `True` by default, because a shared library would be a second file with all device code. Whether the objects are linked even into programs that use shared libraries, such as `cc_test`. If false, the target builds a shared library for these programs.",
        default = True,
    ),
    "local_defines": attr.string_list(
        doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`, for this target only.",
    ),
    "strip_include_prefix": attr.string(
        doc = "Prefix to remove from the paths of `hdrs` in `#include`: a directory relative to the package, or to the workspace if it begins with `/`.",
    ),
    "textual_hdrs": attr.label_list(
        doc = "Headers that cannot be compiled separately, such as those with code for the middle of another file.",
        allow_files = True,
    ),
}

def runfiles_of(ctx, files, deps):
    """Returns the files that programs require at run time.

    Args:
      ctx: the rule's context.
      files: list of Files of the rule itself.
      deps: list of Targets: linked libraries and data.

    Returns:
      runfiles.
    """
    return ctx.runfiles(files).merge_all([dep[DefaultInfo].default_runfiles for dep in deps])

# Extensions of headers that are included in the middle of other files.
_TEXTUAL = ["inc"]

def parse_headers(ctx, compiler, *, language):
    """Compiles each header separately, with the flags of host code, if the feature `parse_headers` is enabled.

    Args:
      ctx: the rule's context; the rule has `LIBRARY_ATTRS`, `HOST_ATTRS`, `CLANG_GROUPS` and `DEVICE_ATTRS`.
      compiler: result of `compiler_of`.
      language: list of clang flags for the language.

    Returns:
      list of Files for the output group `_validation`; they are created only if the headers have no error.
    """
    if not compiler.cc.parses_headers:
        return []
    files = [file for file in ctx.files.hdrs + private_headers_of(ctx) if file.extension not in _TEXTUAL]
    step = parse_step(compiler, copts = expand_flags(ctx, "copts") + expand_flags(ctx, "host_copts"), language = language)
    parsed = []
    for file, name in zip(files, object_names(ctx, files)):
        out = ctx.actions.declare_file("{}/headers/{}.parsed".format(ctx.label.name, name))
        compile(
            ctx,
            compiler,
            step,
            message = "Parsing {}".format(file.short_path),
            mnemonic = "OffloadParseHeader",
            out = out,
            src = file,
        )
        parsed.append(out)
    return parsed

def _dependencies(ctx):
    """Returns the targets whose headers the headers of such a rule can include."""
    return ctx.attr.deps + getattr(ctx.attr, "device_deps", [])

def merged_object(ctx, objects):
    """Merges objects into one, so that programs link either all of them or none.

    Args:
      ctx: the rule's context; the rule has `CLANG_GROUPS`, `DEVICE_ATTRS` and `HOST_ATTRS`.
      objects: list of objects.

    Returns:
      the object.
    """
    out = ctx.actions.declare_file(ctx.label.name + ".o")
    device_link(
        ctx,
        merge_objects_step(host_triple(ctx)),
        linked = [struct(file = file, source = name_of(ctx.label)) for file in objects],
        message = "Merging %{label}",
        mnemonic = "OffloadMerge",
        out = out,
    )
    return out

# Extensions of files for which coverage is collected.
_COUNTED = ["c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hh", "hip", "hpp", "hxx", "inl"]

def library_providers(ctx, compiler, *, context, objects, runtimes, counted = False):
    """Returns the providers of such a rule for C++ programs.

    Args:
      ctx: the rule's context; the rule has `LIBRARY_ATTRS` and uses the C++ toolchain.
      compiler: result of `compiler_of`.
      context: CcCompilationContext of dependents.
      objects: list of position-independent objects.
      runtimes: list of Targets with the runtimes that host code calls; programs are linked with them.
      counted: whether `bazel coverage` collects the coverage of the sources.

    Returns:
      a DefaultInfo, a CcInfo and an InstrumentedFilesInfo.
    """
    deps = [dep for dep in _dependencies(ctx) + ctx.attr.implementation_deps if CcInfo in dep]
    return [
        DefaultInfo(
            files = depset(objects),
            runfiles = runfiles_of(ctx, ctx.files.data, deps + runtimes + ctx.attr.data),
        ),
        linked_cc_info(
            ctx,
            additional_inputs = ctx.files.additional_linker_inputs,
            alwayslink = ctx.attr.alwayslink,
            cc = compiler.cc,
            compilation_context = context,
            deps = [dep[CcInfo] for dep in deps + runtimes] + [compiler.clang.host_link],
            linkopts = expand_flags(ctx, "linkopts"),
            linkstatic = ctx.attr.linkstatic,
            objects = objects,
        ),
        coverage_common.instrumented_files_info(
            ctx,
            dependency_attributes = ["data", "deps", "device_deps", "implementation_deps"],
            extensions = _COUNTED,
            source_attributes = ["srcs", "hdrs"] if counted else [],
        ),
    ]
