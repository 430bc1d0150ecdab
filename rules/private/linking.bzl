"""Registration of device code."""

load(":messages.bzl", "file_name", "name_of")
load(":program.bzl", "offload_arguments", "run_offload")
load(":runtimes.bzl", "FAT_BINARY_RUNTIMES")

HostPlatformInfo = provider(
    doc = "The target platform, which is the host of devices. It is computed once for all targets of a configuration.",
    fields = {
        "triple": "The triple if the platform is one for which all rules work, Linux on x86_64 or aarch64; else None.",
        "windows": "The triple if the platform is Windows on x86_64, else None.",
    },
)

def _host_platform_impl(ctx):
    def is_on(constraint):
        return ctx.target_platform_has_constraint(constraint[platform_common.ConstraintValueInfo])

    cpu = "x86_64" if is_on(ctx.attr._x86_64) else "aarch64" if is_on(ctx.attr._aarch64) else None
    return [HostPlatformInfo(
        triple = cpu + "-unknown-linux-gnu" if cpu and is_on(ctx.attr._linux) else None,
        windows = "x86_64-pc-windows-msvc" if cpu == "x86_64" and is_on(ctx.attr._windows) else None,
    )]

host_platform = rule(
    implementation = _host_platform_impl,
    doc = "Finds the triple of the target platform.",
    attrs = {
        "_aarch64": attr.label(default = "@platforms//cpu:aarch64"),
        "_linux": attr.label(default = "@platforms//os:linux"),
        "_windows": attr.label(default = "@platforms//os:windows"),
        "_x86_64": attr.label(default = "@platforms//cpu:x86_64"),
    },
)

# The attribute of a rule that depends on the target platform.
HOST_ATTRS = {
    "_host_platform": attr.label(
        default = "//rules/private:host_platform",
        providers = [HostPlatformInfo],
    ),
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

def registration_triple(ctx):
    """Returns the triple of the target platform, for a registration without compilations of host code.

    Args:
      ctx: the rule's context; the rule has `HOST_ATTRS`.

    Returns:
      a string of four fields.
    """
    return ctx.attr._host_platform[HostPlatformInfo].windows or linux_triple(ctx) or fail(_PLATFORM.format(name_of(ctx.label), ", or Windows on x86_64"))

def linux_triple(ctx):
    """Returns the triple of the target platform if it is one for which all rules work.

    Args:
      ctx: the rule's context; the rule has `HOST_ATTRS`.

    Returns:
      a string of four fields, or None.
    """
    return ctx.attr._host_platform[HostPlatformInfo].triple

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

def hold_fat_binary(ctx, *, bundle, host, source, suffix, triple, program):
    """Creates an object with the fat binary that a host object registers.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS` and `HOST_ATTRS`.
      bundle: the fat binary.
      host: the host object. If it does not refer to the fat binary, because its source has neither kernels nor device
        variables, the result is an object without content.
      source: the source of the host object.
      suffix: suffix of the fat binary, see `own_entries`.
      triple: result of `host_triple`.
      program: as for `run_offload`.

    Returns:
      the object.
    """
    out = ctx.actions.declare_file(host.basename.removesuffix(".o") + ".fatbin.o", sibling = host)
    args = offload_arguments(ctx, "register", ["--kind=hip", "--triple=" + triple, "--symbol=__hip_fatbin_" + suffix])
    args.add(out, format = "--output=%s")
    args.add(host, format = "--referenced-by=%s")
    args.add(bundle)
    run_offload(
        ctx,
        arguments = [args],
        inputs = [bundle, host],
        mnemonic = "OffloadRegister",
        outputs = [out],
        program = program,
        progress_message = "Embedding device images of " + file_name(source) + " in %{label}",
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
        arguments = [args],
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
      kind: one of `RUNTIMES`.
      files: list of images, or of the one bundle.
      own_entries: list of the objects, compiled with `own_entries`, whose entries belong to
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
    if own_entries == None and kind in FAT_BINARY_RUNTIMES:
        # The bundle can be any file.
        args.add("--check")
    if own_entries != None:
        args.add("--entries={}_{}".format(_ENTRIES, suffix or entries_suffix(ctx)))
        args.add_all(own_entries, format_each = "--keep-entries=%s")
    args.add_all(define, format_each = "--define=%s")
    args.add_all(files)
    run_offload(
        ctx,
        arguments = [args],
        inputs = files + (own_entries or []),
        mnemonic = "OffloadRegister",
        outputs = [out],
        progress_message = "Writing the registration of %{label}",
    )
    return out
