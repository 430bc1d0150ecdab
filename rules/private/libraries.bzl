"""What rules have in common whose sources have device code and host code: a library for C++ programs."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "ARCH_COPTS_ATTRS")
load(":cc_flags.bzl", "host_environment", "host_flags")
load(":clang.bzl", "COMPILE_GROUP", "LINK_GROUP", "add_headers", "add_rocm", "clang_arguments", "include_folders", "object_names", "private_headers_of", "rocm_inputs", "run_clang")
load(":device_link.bzl", "DEVICE_LINKOPTS_DOC")
load(":flags.bzl", "COMPILER_INPUTS_ATTRS", "LINKER_INPUTS_ATTRS", "add_flags", "expand_defines", "expand_flags")
load(":linking.bzl", "host_triple", "linked_cc_info")
load(":toolchains.bzl", "device_toolchain_of")

# The attributes of such a rule, beside srcs.
LIBRARY_ATTRS = ARCH_COPTS_ATTRS | COMPILER_INPUTS_ATTRS | LINKER_INPUTS_ATTRS | {
    "alwayslink": attr.bool(
        doc = "Whether programs that depend on it get all of its code. If not, they get all or nothing: nothing where they call nothing of it.",
        default = True,
    ),
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
    "implementation_deps": attr.label_list(
        doc = "Libraries that the sources include headers of, and dependents do not; they are linked as `deps` are.",
        providers = [CcInfo],
    ),
    "include_prefix": attr.string(
        doc = "What comes before the paths of `hdrs` in `#include`, after `strip_include_prefix` is taken off.",
    ),
    "includes": attr.string_list(
        doc = "Folders of this package that the compiler looks in for headers, `.` for the package itself; also for dependents.",
    ),
    "linkopts": attr.string_list(
        doc = "More flags of the links of programs that depend on it.",
    ),
    "linkstatic": attr.bool(
        doc = "Whether programs get its objects also where they are linked with shared libraries, as `cc_test` is. If not, there is a shared library for these.",
        default = True,
    ),
    "local_defines": attr.string_list(
        doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`, for this target alone.",
    ),
    "strip_include_prefix": attr.string(
        doc = "What is taken off the paths of `hdrs` in `#include`: a folder of this package, or of the workspace if it begins with `/`.",
    ),
    "textual_hdrs": attr.label_list(
        doc = "Headers that cannot be compiled by themselves, such as those with code for the middle of another file.",
        allow_files = True,
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

def library_headers(ctx, cc):
    """What the sources of such a rule may include, and what dependents may.

    Args:
      ctx: the rule's context; the rule has `LIBRARY_ATTRS` and uses the C++ toolchain.
      cc: what `cc_configuration` gave.

    Returns:
      a struct for `add_headers` as `headers_of` gives it; and context, the CcCompilationContext of dependents, with a
      module map of the headers where the C++ toolchain has them; outputs, the CcCompilationOutputs of the headers.
    """
    local_defines = expand_defines(ctx, "local_defines")
    context, outputs = cc_common.compile(
        actions = ctx.actions,
        additional_inputs = ctx.files.additional_compiler_inputs,
        cc_toolchain = cc.toolchain,
        compilation_contexts = [dep[CcInfo].compilation_context for dep in _dependencies(ctx) if CcInfo in dep],
        defines = expand_defines(ctx, "defines"),
        feature_configuration = cc.features,
        include_prefix = ctx.attr.include_prefix,
        includes = include_folders(ctx),
        local_defines = local_defines,
        name = ctx.label.name,
        private_hdrs = private_headers_of(ctx),
        public_hdrs = ctx.files.hdrs,
        strip_include_prefix = ctx.attr.strip_include_prefix,
        textual_hdrs = ctx.files.textual_hdrs,
    )
    own = cc_common.merge_compilation_contexts(
        compilation_contexts = [context] + [dep[CcInfo].compilation_context for dep in ctx.attr.implementation_deps],
    )
    return struct(
        context = context,
        defines = depset(local_defines, transitive = [own.defines]),
        files = depset(ctx.files.additional_compiler_inputs, transitive = [own.headers]),
        includes = own.includes,
        outputs = outputs,
        quote_includes = own.quote_includes,
        system_includes = depset(transitive = [own.system_includes, own.external_includes]),
    )

# Extensions of headers that are for the middle of other files.
_TEXTUAL = ["inc"]
_PARSE = """set -eu
out=$1
shift
"$@"
: > "$out\""""

def parse_headers(ctx, *, cc, headers, language):
    """Compiles each header by itself where the feature `parse_headers` asks for it, as the host code of the sources is compiled.

    Args:
      ctx: the rule's context; the rule has `LIBRARY_ATTRS`, `HOST_ATTRS`, `CLANG_GROUPS` and `DEVICE_ATTRS`.
      cc: what `cc_configuration` gave.
      headers: what `library_headers` gave.
      language: list of flags of clang for the language.

    Returns:
      list of Files that are there if the headers have no error, for the output group `_validation`.
    """
    files = [file for file in ctx.files.hdrs + private_headers_of(ctx) if file.extension not in _TEXTUAL]
    if not cc.parses_headers:
        return []
    toolchain = device_toolchain_of(ctx, COMPILE_GROUP)
    parsed = []
    for file, name in zip(files, object_names(ctx, files)):
        out = ctx.actions.declare_file("{}/headers/{}.parsed".format(ctx.label.name, name))
        before = ctx.actions.args()
        before.add(out)
        args = clang_arguments(ctx)
        args.add_all(language)
        args.add(host_triple(ctx), format = "--target=%s")
        add_flags(args, host_flags(ctx, cc), out)
        add_rocm(args, toolchain)
        args.add_all(["-fsyntax-only", "-Wno-pragma-once-outside-header"])
        add_headers(args, headers, out)
        add_flags(args, expand_flags(ctx, "copts") + expand_flags(ctx, "host_copts"), out)
        args.add(file)
        run_clang(
            ctx,
            arguments = args,
            command = _PARSE,
            command_arguments = before,
            env = host_environment(cc),
            group = COMPILE_GROUP,
            inputs = depset([file], transitive = [headers.files, cc.toolchain.all_files, rocm_inputs(toolchain)]),
            mnemonic = "OffloadParseHeader",
            out = out,
            progress_message = "Parsing {}".format(file.short_path),
            toolchain = toolchain,
        )
        parsed.append(out)
    return parsed

def _dependencies(ctx):
    """What the headers of such a rule may include headers of."""
    return ctx.attr.deps + getattr(ctx.attr, "device_deps", [])

def merged_object(ctx, objects):
    """Objects as one: what needs any of them gets them all.

    Args:
      ctx: the rule's context; the rule has `CLANG_GROUPS`, `DEVICE_ATTRS` and `HOST_ATTRS`.
      objects: list of objects.

    Returns:
      the object.
    """
    out = ctx.actions.declare_file(ctx.label.name + ".o")
    args = clang_arguments(ctx)
    args.add(host_triple(ctx), format = "--target=%s")
    args.add_all(["-fuse-ld=lld", "-nostdlib", "-r", "-o", out])
    args.add_all(objects)
    run_clang(
        ctx,
        arguments = args,
        group = LINK_GROUP,
        inputs = depset(objects),
        mnemonic = "OffloadMerge",
        out = out,
        progress_message = "Merging %{label}",
        toolchain = device_toolchain_of(ctx, LINK_GROUP),
    )
    return out

# Files whose lines are counted.
_COUNTED = ["c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hh", "hip", "hpp", "hxx", "inl"]

def library_providers(ctx, *, headers, objects, runtime, counted = False):
    """What such a rule gives to C++ programs.

    Args:
      ctx: the rule's context; the rule has `LIBRARY_ATTRS` and uses the C++ toolchain.
      headers: what `library_headers` gave.
      objects: list of position-independent objects.
      runtime: the Target that programs are linked with, for all that launches device code.
      counted: whether `bazel coverage` has the lines of the sources counted.

    Returns:
      a DefaultInfo, a CcInfo and an InstrumentedFilesInfo.
    """
    deps = [dep for dep in _dependencies(ctx) + ctx.attr.implementation_deps if CcInfo in dep]
    if not ctx.attr.alwayslink and len(objects) > 1:
        # Nothing refers to the object that registers device code.
        objects = [merged_object(ctx, objects)]
    return [
        DefaultInfo(
            files = depset(objects),
            runfiles = runfiles_of(ctx, ctx.files.data, deps + [runtime] + ctx.attr.data),
        ),
        linked_cc_info(
            ctx,
            additional_inputs = ctx.files.additional_linker_inputs,
            alwayslink = ctx.attr.alwayslink,
            compilation_context = headers.context,
            deps = [dep[CcInfo] for dep in deps + [runtime]],
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
