"""Registration of device code, and CcInfo to link it into programs."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":cc_flags.bzl", "cc_configuration")
load(":messages.bzl", "name_of")
load(":program.bzl", "offload_arguments", "run_offload")

# The attributes of a rule that registers images.
HOST_ATTRS = {
    "_aarch64": attr.label(default = "@platforms//cpu:aarch64"),
    "_linux": attr.label(default = "@platforms//os:linux"),
    "_x86_64": attr.label(default = "@platforms//cpu:x86_64"),
}

_PLATFORM = """{}: the target platform is not Linux on x86_64 or aarch64{}, so device images cannot be registered. \
Build for another platform, or skip the target for this one:
    target_compatible_with = ["@platforms//os:linux"] + select({{
        "@platforms//cpu:aarch64": [],
        "@platforms//cpu:x86_64": [],
        "//conditions:default": ["@platforms//:incompatible"],
    }})"""

def host_triple(ctx):
    """Returns the triple of the target platform.

    Args:
      ctx: the rule's context; the rule has `HOST_ATTRS`.

    Returns:
      a string of four fields.
    """
    return linux_triple(ctx) or fail(_PLATFORM.format(name_of(ctx.label), ""))

# Additional attributes of a rule that also creates registration objects for Windows.
WINDOWS_ATTRS = {
    "_windows": attr.label(default = "@platforms//os:windows"),
}

def registration_triple(ctx):
    """Returns the triple of the target platform, for a registration without compilations of host code.

    Args:
      ctx: the rule's context; the rule has `HOST_ATTRS` and `WINDOWS_ATTRS`.

    Returns:
      a string of four fields.
    """
    if _is(ctx, ctx.attr._windows) and _is(ctx, ctx.attr._x86_64):
        return "x86_64-pc-windows-msvc"
    return linux_triple(ctx) or fail(_PLATFORM.format(name_of(ctx.label), ", or Windows on x86_64"))

def linux_triple(ctx):
    """Returns the triple of the target platform if it is one for which all rules work.

    Args:
      ctx: the rule's context; the rule has `HOST_ATTRS`.

    Returns:
      a string of four fields, or None.
    """
    if _is(ctx, ctx.attr._linux):
        for cpu, constraint in [("x86_64", ctx.attr._x86_64), ("aarch64", ctx.attr._aarch64)]:
            if _is(ctx, constraint):
                return cpu + "-unknown-linux-gnu"
    return None

def _is(ctx, constraint):
    return ctx.target_platform_has_constraint(constraint[platform_common.ConstraintValueInfo])

def entries_suffix(ctx):
    """Returns a suffix that distinguishes the offload entries of a target from those of others in a program.

    Args:
      ctx: the rule's context.

    Returns:
      a string that is valid in an identifier.
    """
    name = str(ctx.label)
    return "%x_%x" % (hash(name) + (1 << 31), hash(name[::-1]) + (1 << 31))

# The section of clang's offload entries.
_ENTRIES = "llvm_offload_entries"

def registration_symbol(ctx):
    """Returns the symbol by which the linker finds the registration of a library in its archive.

    Args:
      ctx: the rule's context; the rule has `LIBRARY_ATTRS`.

    Returns:
      a string; empty if programs link all objects of the library anyway.
    """
    return "" if ctx.attr.alwayslink else "registration of " + name_of(ctx.label)

def isolate_objects(ctx, objects, suffixes = None, reference = ""):
    """Assigns the offload entries of objects to one target, so that no other target registers them.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS`.
      objects: list of host objects.
      suffixes: for each object, the suffix of its entries or fat binary; by default, the suffix of the target.
      reference: symbol that objects with entries refer to; empty for none.

    Returns:
      list of the new objects.
    """
    isolated = []
    for file, suffix in zip(objects, suffixes or [entries_suffix(ctx)] * len(objects)):
        out = ctx.actions.declare_file(file.basename.removesuffix(".o") + ".own.o", sibling = file)
        args = offload_arguments(ctx, "isolate")
        args.add(file, format = "--input=%s")
        args.add(out, format = "--output=%s")
        args.add("--suffix=" + suffix)
        if reference:
            args.add("--reference=" + reference)
        run_offload(
            ctx,
            arguments = args,
            inputs = [file],
            mnemonic = "OffloadIsolate",
            outputs = [out],
            progress_message = "Renaming the offload entries of %{input}",
        )
        isolated.append(out)
    return isolated

def hold_fat_binary(ctx, *, bundle, host, name, suffix, triple):
    """Creates an object with the fat binary that a host object registers, after `isolate_objects`.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS` and `HOST_ATTRS`.
      bundle: the fat binary.
      host: the host object. If it does not refer to the fat binary, because its source has neither kernels nor device
        variables, the result is an object without content.
      name: name of the source in the target.
      suffix: suffix of the host object.
      triple: result of `host_triple`.

    Returns:
      the object.
    """
    out = ctx.actions.declare_file("{}/host/{}.fatbin.o".format(ctx.label.name, name))
    args = offload_arguments(ctx, "register")
    args.add("--kind=hip")
    args.add("--triple=" + triple)
    args.add(out, format = "--output=%s")
    args.add("--symbol=__hip_fatbin_" + suffix)
    args.add(host, format = "--referenced-by=%s")
    args.add(bundle)
    run_offload(
        ctx,
        arguments = args,
        inputs = [bundle, host],
        mnemonic = "OffloadRegister",
        outputs = [out],
        progress_message = "Embedding %{input}",
    )
    return out

def require_device_link(ctx, symbol, define = ""):
    """Creates an object that only links into programs that define a symbol.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS` and `HOST_ATTRS`.
      symbol: the symbol, which linkers report as undefined.
      define: symbol that the object defines; empty for none.

    Returns:
      the object.
    """
    out = ctx.actions.declare_file(ctx.label.name + ".require.o")
    args = offload_arguments(ctx, "require")
    args.add(host_triple(ctx), format = "--triple=%s")
    args.add(out, format = "--output=%s")
    if define:
        args.add("--define=" + define)
    args.add(symbol)
    run_offload(
        ctx,
        arguments = args,
        inputs = [],
        mnemonic = "OffloadRequire",
        outputs = [out],
        progress_message = "Writing the link check of %{label}",
    )
    return out

def register_images(ctx, *, kind, files, own_entries = None, relocatable = False, suffix = None, define = [], host = None, llvm_version = None):
    """Creates an object that registers images when a program starts.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS` and `HOST_ATTRS`.
      kind: `openmp`, `hip`, `cuda` or `sycl`.
      files: list of images, or of the one bundle.
      own_entries: list of the objects from `isolate_objects` whose entries belong to
        the images; None for the entries of all objects that clang compiled.
      relocatable: whether later device links ignore the images.
      suffix: suffix of the entries; by default, the suffix of the target.
      define: list of symbols that the object defines, for `require_device_link`.
      host: the triple of the host; by default, that of the target platform.
      llvm_version: number of the LLVM release whose SYCL runtime the object calls.

    Returns:
      the object.
    """
    host = host or host_triple(ctx)
    out = ctx.actions.declare_file(ctx.label.name + (".register.obj" if "-windows-" in host else ".register.o"))
    args = offload_arguments(ctx, "register")
    args.add(kind, format = "--kind=%s")
    args.add(host, format = "--triple=%s")
    args.add(out, format = "--output=%s")
    if llvm_version:
        args.add(llvm_version, format = "--llvm-version=%s")
    if relocatable:
        args.add("--relocatable")
    if own_entries == None and kind in ("hip", "cuda"):
        # The bundle can be any file.
        args.add("--check")
    if own_entries != None:
        args.add("--entries={}_{}".format(_ENTRIES, suffix or entries_suffix(ctx)))
        args.add_all(own_entries, format_each = "--keep-entries=%s")
    args.add_all(define, format_each = "--define=%s")
    args.add_all(files)
    run_offload(
        ctx,
        arguments = args,
        inputs = files + (own_entries or []),
        mnemonic = "OffloadRegister",
        outputs = [out],
        progress_message = "Writing the registration of %{label}",
    )
    return out

def linked_cc_info(ctx, *, objects, deps, cc = None, additional_inputs = [], alwayslink = True, compilation_context = None, linkopts = [], linkstatic = True):
    """Returns a CcInfo whose objects are linked into all dependents.

    Args:
      ctx: the rule's context; the rule uses the C++ toolchain.
      objects: list of position-independent objects.
      deps: list of CcInfo that are linked with them.
      cc: result of `cc_configuration`, if the rule already has it.
      additional_inputs: list of files that linkopts refer to.
      alwayslink: whether programs include objects that they do not refer to.
      compilation_context: headers that dependents can include.
      linkopts: linker flags of programs.
      linkstatic: whether programs that use shared libraries also link the objects.

    Returns:
      a CcInfo.
    """
    cc = cc or cc_configuration(ctx)
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        additional_inputs = additional_inputs,
        alwayslink = alwayslink,
        cc_toolchain = cc.toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        disallow_dynamic_library = linkstatic or not cc_common.is_enabled(
            feature_configuration = cc.features,
            feature_name = "supports_dynamic_linker",
        ),
        feature_configuration = cc.features,
        linking_contexts = [dep.linking_context for dep in deps],
        name = ctx.label.name,
        user_link_flags = linkopts,
    )
    return CcInfo(
        compilation_context = compilation_context,
        linking_context = linking_context,
    )
