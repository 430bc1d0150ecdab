"""Libraries of C++ programs: those with sources for devices and hosts, and all other objects that programs link."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "ARCH_COPTS_ATTRS", "DEVICE_LINKOPTS_ATTRS")
load(":cc_flags.bzl", "cc_configuration")
load(":cc_infos.bzl", "link_info")
load(":compilation.bzl", "compile", "parse_step")
load(":device_link.bzl", "device_link", "merge_objects_step")
load(":flags.bzl", "COMPILER_INPUTS_ATTRS", "LINKER_INPUTS_ATTRS", "expand_flags", "language_copts")
load(":headers.bzl", "EXPORTED_HEADERS_ATTRS", "context_of")
load(":linking.bzl", "host_triple")
load(":messages.bzl", "file_name", "name_of")
load(":sources.bzl", "COMPILE_INPUT", "HEADERS", "HIP_SOURCES", "object_names", "private_headers_of")

# Extensions of linker scripts, as in cc_library.
_LINKER_SCRIPTS = [".ld", ".lds", ".ldscript"]

# The attributes of such a rule, except srcs.
LIBRARY_ATTRS = ARCH_COPTS_ATTRS | COMPILER_INPUTS_ATTRS | DEVICE_LINKOPTS_ATTRS | EXPORTED_HEADERS_ATTRS | LINKER_INPUTS_ATTRS | {
    "alwayslink": attr.bool(
        doc = "As in `cc_library`: whether programs include objects that they do not refer to. Such an object adds its kernels and their registration.",
    ),
    "conlyopts": attr.string_list(
        doc = "As in `cc_library`: additional compiler flags for sources that are compiled as C, after `copts`.",
    ),
    "copts": attr.string_list(
        doc = "Additional compiler flags for host and device code.",
    ),
    "cxxopts": attr.string_list(
        doc = "As in `cc_library`: additional compiler flags for sources that are compiled as C++ or HIP, for host and device code, after `copts`.",
    ),
    "data": attr.label_list(
        doc = "Files that programs require at run time.",
        allow_files = True,
    ),
    "deps": attr.label_list(
        doc = "Libraries whose headers the sources include, and that are linked with them; also linker scripts (`.ld`, `.lds`, `.ldscript`), which `linkopts` can refer to.",
        allow_files = _LINKER_SCRIPTS,
        # As in cc_library: libraries need not make such files.
        flags = ["SKIP_ANALYSIS_TIME_FILETYPE_CHECK"],
        providers = [CcInfo],
    ),
    "device_copts": attr.string_list(
        doc = "Additional compiler flags for device code, after `copts`, `conlyopts` and `cxxopts`.",
    ),
    "host_copts": attr.string_list(
        doc = "Additional compiler flags for host code, after `copts`, `conlyopts` and `cxxopts`.",
    ),
    "implementation_deps": attr.label_list(
        doc = "Libraries whose headers only the sources include, not the dependents. They are linked in the same way as `deps`.",
        providers = [CcInfo],
    ),
    "include_prefix": attr.string(
        doc = "Prefix to add to the paths of `hdrs` in `#include`, after `strip_include_prefix` is removed.",
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
        doc = "Headers that cannot be compiled separately, such as those that only compile inside another file.",
        allow_files = True,
        flags = COMPILE_INPUT,
    ),
}

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
    step = parse_step(compiler, copts = language_copts(ctx, "c++") + expand_flags(ctx, "host_copts"), language = language)
    parsed = []
    for file, name in zip(files, object_names(ctx, files)):
        out = ctx.actions.declare_file("{}/headers/{}.parsed".format(ctx.label.name, name))
        compile(
            ctx,
            compiler,
            step,
            message = "Parsing " + file_name(file),
            mnemonic = "OffloadParseHeader",
            out = out,
            src = file,
        )
        parsed.append(out)
    return parsed

def _linker_scripts(ctx):
    """Returns the files in deps that are no libraries."""
    return [file for dep in ctx.attr.deps if CcInfo not in dep for file in dep[DefaultInfo].files.to_list()]

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
        merge_objects_step(ctx, host_triple(ctx)),
        linked = [struct(file = file, source = name_of(ctx.label)) for file in objects],
        message = "Merging %{label}",
        mnemonic = "OffloadMerge",
        out = out,
    )
    return out

# Extensions of files for which coverage is collected.
_COUNTED = [extension[1:] for extension in HIP_SOURCES + HEADERS + [".c"]]

def library_providers(ctx, compiler, *, context, objects, runtimes, counted = False):
    """Returns the providers of a rule with `LIBRARY_ATTRS` for C++ programs.

    Args:
      ctx: the rule's context; the rule uses the C++ toolchain.
      compiler: result of `compiler_of`.
      context: CcCompilationContext of dependents.
      objects: list of position-independent objects.
      runtimes: list of Targets with the runtimes that host code calls; programs are linked with them.
      counted: whether `bazel coverage` collects the coverage of the sources.

    Returns:
      result of `program_providers`.
    """
    return program_providers(
        ctx,
        additional_inputs = ctx.files.additional_linker_inputs + _linker_scripts(ctx),
        alwayslink = ctx.attr.alwayslink,
        context = context,
        counted = ["srcs", "hdrs"] if counted else [],
        deps = _dependencies(ctx) + ctx.attr.implementation_deps + runtimes,
        host_link = [compiler.clang.host_link],
        linkopts = expand_flags(ctx, "linkopts"),
        linkstatic = ctx.attr.linkstatic,
        objects = objects,
    )

def _library_files(library):
    """Returns the files of a LibraryToLink. Its two archives have the same objects, all of which are position-independent."""
    shared = library.resolved_symlink_dynamic_library or library.dynamic_library
    return [file for file in [library.static_library or library.pic_static_library, shared] if file]

# Attributes whose targets can become part of a program.
_DEPENDENCIES = ["data", "deps", "device_deps", "implementation_deps"]

def program_providers(
        ctx,
        *,
        objects,
        deps,
        additional_inputs = [],
        alwayslink = True,
        cc = None,
        context = None,
        counted = [],
        host_link = [],
        linkopts = [],
        linkstatic = True,
        outputs = None):
    """Returns the providers with which C++ programs link objects and the libraries that these depend on.

    Args:
      ctx: the rule's context; the rule uses the C++ toolchain.
      objects: list of position-independent objects that programs link.
      deps: list of Targets: libraries that are linked with them. Targets without CcInfo are ignored.
      additional_inputs: list of files that linkopts refer to.
      alwayslink: whether programs include objects that they do not refer to.
      cc: result of `cc_configuration`, if the rule already has it.
      context: CcCompilationContext of dependents; by default, that of deps.
      counted: names of the attributes whose files `bazel coverage` collects the coverage of.
      host_link: list of CcInfo with flags of the device toolchain for links of programs.
      linkopts: linker flags of programs.
      linkstatic: whether programs that use shared libraries also link the objects.
      outputs: list of the default outputs; by default, those of a cc_library: the archive, and the shared library if there is one.

    Returns:
      a DefaultInfo, a CcInfo and an InstrumentedFilesInfo.
    """
    cc = cc or cc_configuration(ctx)
    deps = [dep for dep in deps if CcInfo in dep]
    files = []
    if objects:
        linked = depset(objects)
        linking_context, made = cc_common.create_linking_context_from_compilation_outputs(
            actions = ctx.actions,
            additional_inputs = additional_inputs,
            alwayslink = alwayslink,
            cc_toolchain = cc.toolchain,
            compilation_outputs = cc_common.create_compilation_outputs(objects = linked, pic_objects = linked),
            disallow_dynamic_library = linkstatic or not cc_common.is_enabled(
                feature_configuration = cc.features,
                feature_name = "supports_dynamic_linker",
            ),
            feature_configuration = cc.features,
            linking_contexts = [dep[CcInfo].linking_context for dep in deps] + [info.linking_context for info in host_link],
            name = ctx.label.name,
            user_link_flags = linkopts,
        )
        files = _library_files(made.library_to_link)
    else:
        # A library of headers has no archive, as with cc_library.
        own = link_info(ctx, deps = deps, files = additional_inputs, flags = linkopts)
        linking_context = cc_common.merge_cc_infos(cc_infos = [own] + host_link).linking_context
    runfiles = [dep[DefaultInfo].default_runfiles for dep in deps + getattr(ctx.attr, "data", [])]
    return [
        DefaultInfo(files = depset(files if outputs == None else outputs), runfiles = ctx.runfiles(getattr(ctx.files, "data", [])).merge_all(runfiles)),
        CcInfo(compilation_context = context or context_of(deps), linking_context = linking_context),
        coverage_common.instrumented_files_info(
            ctx,
            dependency_attributes = [name for name in _DEPENDENCIES if hasattr(ctx.attr, name)],
            extensions = _COUNTED,
            source_attributes = counted,
        ),
    ]
