"""Headers of compilations: those of the target itself and of the libraries that it depends on."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":cc_flags.bzl", "cc_configuration")
load(":flags.bzl", "expand_defines", "expand_path")
load(":messages.bzl", "name_of")
load(":sources.bzl", "COMPILE_INPUT", "private_headers_of")

# The attributes of a rule with headers for its dependents.
EXPORTED_HEADERS_ATTRS = {
    "defines": attr.string_list(
        doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`, for this target and its dependents.",
    ),
    "hdrs": attr.label_list(
        doc = "Headers that the sources and dependents include, by their path relative to the workspace.",
        allow_files = True,
        flags = COMPILE_INPUT,
    ),
    "includes": attr.string_list(
        doc = "Directories to add to the include path of this target and its dependents, relative to the package; `.` is the package itself.",
    ),
}

# The attribute of a rule that only includes headers of C++ libraries.
HEADER_DEPS_ATTRS = {
    "deps": attr.label_list(
        doc = "Libraries whose headers the sources include, such as `cc_library` targets that only have `hdrs`. Unlike in `cc_library`, they are not linked, because device code cannot call them.",
        providers = [CcInfo],
    ),
}

def contexts_of(targets):
    """Returns the compilation contexts of dependencies.

    Args:
      targets: list of Targets; those without `CcInfo` have no headers.

    Returns:
      list of CcCompilationContexts.
    """
    return [target[CcInfo].compilation_context for target in targets if CcInfo in target]

def context_of(targets):
    """Returns the headers of dependencies.

    Args:
      targets: list of Targets.

    Returns:
      a CcCompilationContext.
    """
    return cc_common.merge_compilation_contexts(compilation_contexts = contexts_of(targets))

def _repository_define(ctx):
    """Returns the definition with which C++ sources find their runfiles, as in cc_library."""
    return "BAZEL_CURRENT_REPOSITORY=\"{}\"".format(ctx.label.repo_name)

def _collected(ctx, context, local_defines = [], exported = None):
    """Returns headers in the form that compilations take."""
    system = context.system_includes
    external = context.external_includes
    return _headers(
        ctx,
        context = exported or context,
        defines = depset(local_defines + [_repository_define(ctx)], transitive = [context.defines]),
        headers = context.headers,
        includes = context.includes,
        quote_includes = context.quote_includes,
        system_includes = depset(transitive = [system, external]) if external else system,
    )

def _headers(ctx, *, headers, **kwargs):
    files = ctx.files.additional_compiler_inputs
    return struct(
        files = depset(files, transitive = [headers]) if files else headers,
        headers = headers,
        **kwargs
    )

def _own(ctx):
    """Returns the headers of the target itself, without a module map."""
    return struct(
        defines = expand_defines(ctx, "defines"),
        headers = depset(ctx.files.hdrs),
        includes = include_folders(ctx),
        quote_includes = _with_generated(ctx, [ctx.label.workspace_root or "."]),
    )

def headers_of(ctx):
    """Returns the headers that the sources of a rule without host code can include, and those that dependents can include.

    Args:
      ctx: the rule's context; the rule has the attributes hdrs, includes, defines, deps and additional_compiler_inputs.

    Returns:
      a struct for `compiler_of`: headers is a depset of the headers; files, a depset of the headers and of the files that
      flags refer to; context, the CcCompilationContext of dependents; defines, includes, quote_includes and
      system_includes, depsets of strings.
    """
    context = _context(_own(ctx), _contexts(ctx))
    own = context
    if private_headers_of(ctx):
        private = cc_common.create_compilation_context(headers = depset(private_headers_of(ctx)))
        own = cc_common.merge_compilation_contexts(compilation_contexts = [private, context])
    return _collected(ctx, own, exported = context)

def _context(own, others):
    """Returns the headers for dependents, without a module map."""
    context = cc_common.create_compilation_context(
        defines = depset(own.defines),
        headers = own.headers,
        includes = depset(own.includes),
        quote_includes = depset(own.quote_includes),
    )
    return cc_common.merge_compilation_contexts(compilation_contexts = [context] + others) if others else context

def _contexts(ctx):
    return contexts_of(ctx.attr.deps + getattr(ctx.attr, "device_deps", []))

def library_headers(ctx):
    """Returns the headers that the sources of a library for C++ programs can include, and those that dependents can include.

    Args:
      ctx: the rule's context; the rule has `LIBRARY_ATTRS` and uses the C++ toolchain.

    Returns:
      a struct as returned by `headers_of`, whose context is that of dependents, with a module map of the headers if the
      C++ toolchain uses them.
    """
    cc = cc_configuration(ctx)
    local_defines = expand_defines(ctx, "local_defines")
    if cc.maps_modules or ctx.files.hdrs or ctx.files.textual_hdrs or ctx.attr.includes or private_headers_of(ctx):
        context = _library_context(ctx, cc, local_defines)
    else:
        # The same, and faster.
        lone = _own(ctx)
        others = _contexts(ctx)
        context = _context(lone, others)
        if not others and not ctx.attr.implementation_deps:
            # What is in the context is known.
            return _headers(
                ctx,
                context = context,
                defines = depset(lone.defines + local_defines + [_repository_define(ctx)]),
                headers = lone.headers,
                includes = depset(lone.includes),
                quote_includes = depset(lone.quote_includes),
                system_includes = None,
            )
    own = context
    if ctx.attr.implementation_deps:
        own = cc_common.merge_compilation_contexts(
            compilation_contexts = [context] + contexts_of(ctx.attr.implementation_deps),
        )
    return _collected(ctx, own, local_defines, exported = context)

def _library_context(ctx, cc, local_defines):
    context, _ = cc_common.compile(
        actions = ctx.actions,
        additional_inputs = ctx.files.additional_compiler_inputs,
        cc_toolchain = cc.toolchain,
        compilation_contexts = _contexts(ctx),
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
    return context

def include_folders(ctx):
    """Returns the directories in the attribute includes.

    Args:
      ctx: the rule's context.

    Returns:
      list of paths, including those of generated files.
    """
    root = ctx.label.workspace_root
    folders = []
    for include in [expand_path(ctx, "includes", text) for text in ctx.attr.includes]:
        parts = [] if include.startswith("/") else [part for part in ctx.label.package.split("/") if part]
        outside = include.startswith("/")
        for part in include.split("/"):
            if part == "..":
                outside = outside or not parts
                parts = parts[:-1]
            elif part not in ("", "."):
                parts.append(part)
        if outside:
            fail("{}: includes: {} is outside of the workspace: name a directory in it, relative to the package".format(name_of(ctx.label), repr(include)))
        folders.append("/".join(([root] if root else []) + parts) or ".")
    return _with_generated(ctx, folders)

def _with_generated(ctx, folders):
    """Returns source directories, each followed by the directory of its generated files."""
    result = []
    for folder in folders:
        result.append(folder)
        result.append(ctx.bin_dir.path if folder == "." else ctx.bin_dir.path + "/" + folder)
    return result
