"""From HIP sources to code objects and host objects."""

load("//rules:providers.bzl", "offload_image")
load(":architectures.bzl", "architectures_of")
load(":clang.bzl", "COMPILE_GROUP", "LINK_GROUP", "add_headers", "add_rocm", "clang_arguments", "compilation_id", "object_names", "run_clang")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "device_toolchain_of")

# The kind that clang gives HIP code objects since code object version 4.
_KIND = "hipv4"

def _arguments(ctx, toolchain, src):
    args = clang_arguments(ctx)
    args.add_all(["-x", "hip"])
    args.add_all(toolchain.compile_flags)
    args.add_all(toolchain.mode_flags[ctx.var["COMPILATION_MODE"]])
    add_rocm(args, toolchain)
    args.add(compilation_id(ctx, src), format = "-cuid=%s")
    return args

def _compile(ctx, toolchain, headers, src, name, arch, rdc, copts):
    out = ctx.actions.declare_file("{}/{}/{}.{}".format(
        ctx.label.name,
        target_ids.file_name(arch),
        name,
        "bc" if rdc else "o",
    ))
    args = _arguments(ctx, toolchain, src)
    args.add_all(["--offload-device-only", "--no-gpu-bundle-output"])
    args.add(arch, format = "--offload-arch=%s")
    if rdc:
        args.add_all(["-fgpu-rdc", "-emit-llvm", "-c"])
    else:
        # The driver links what it assembles; to keep the link an action of its
        # own it is told to stop before, and the compiler to write an object.
        args.add_all(["-S", "-Xclang", "-emit-obj"])
    add_headers(args, headers, out)
    args.add_all(copts)
    args.add("-o", out)
    args.add(src)
    run_clang(
        ctx,
        arguments = args,
        group = COMPILE_GROUP,
        inputs = depset([src], transitive = [headers.files]),
        mnemonic = "OffloadHipCompile",
        out = out,
        progress_message = "Compiling {} for {}".format(src.short_path, arch),
        toolchain = toolchain,
    )
    return out

def _link(ctx, toolchain, objects, arch, linkopts):
    out = ctx.actions.declare_file("{}/{}.co".format(ctx.label.name, target_ids.file_name(arch)))
    args = clang_arguments(ctx)
    args.add("--target=amdgcn-amd-amdhsa")
    args.add(arch, format = "-mcpu=%s")

    # The compilations have linked the device libraries. Some releases of clang would link them again, others warn
    # that there is nothing to turn off.
    args.add_all(["-nogpulib", "-Wno-unused-command-line-argument"])
    args.add_all(toolchain.link_flags)
    args.add_all(linkopts)
    args.add("-o", out)
    args.add_all(objects)
    run_clang(
        ctx,
        arguments = args,
        group = LINK_GROUP,
        inputs = depset(objects),
        mnemonic = "OffloadDeviceLink",
        out = out,
        progress_message = "Linking %{label} for " + arch,
        toolchain = toolchain,
    )
    return out

def hip_images(ctx, *, where, headers, rdc, copts, linkopts):
    """Compiles the sources of a rule for its architectures, and links each.

    Args:
      ctx: the rule's context; it has `srcs`, `CLANG_GROUPS` and `ARCHITECTURES_ATTRS`.
      where: `label: rule` to begin a message with.
      headers: what `headers_of` gave.
      rdc: whether the sources are compiled to bitcode, and code is generated in the link.
      copts: compiler flags.
      linkopts: flags of the device link.

    Returns:
      list of `offload_image()`, one for each architecture.
    """
    if not ctx.files.srcs:
        fail("{}: srcs is empty: give it the HIP sources".format(where))
    targets = architectures_of(ctx, where, _KIND)
    for target in targets:
        if target.kind != _KIND or not target.triple.startswith("amdgcn-"):
            fail("{}: offload_archs: {} is not an AMD GPU: HIP code objects are for target IDs like gfx942 or gfx90a:xnack+".format(
                where,
                target.target_id or target_ids.entry_id(target.kind, target.triple, ""),
            ))
    compiler = device_toolchain_of(ctx, COMPILE_GROUP)
    linker = device_toolchain_of(ctx, LINK_GROUP)
    names = object_names(ctx, ctx.files.srcs)

    images = []
    for target in targets:
        arch = target.target_id
        objects = [
            _compile(ctx, compiler, headers, src, name, arch, rdc, copts)
            for src, name in zip(ctx.files.srcs, names)
        ]
        images.append(offload_image(
            file = _link(ctx, linker, objects, arch, linkopts),
            kind = _KIND,
            label = ctx.label,
            target_id = arch,
            triple = target.triple,
        ))
    return images

def hip_host_objects(ctx, *, headers, copts):
    """Compiles the host code of the sources of a rule. It does not depend on device code.

    Args:
      ctx: the rule's context; it has `srcs` and `CLANG_GROUPS`.
      headers: what `headers_of` gave.
      copts: compiler flags.

    Returns:
      list of Files, objects with offload entries.
    """
    toolchain = device_toolchain_of(ctx, COMPILE_GROUP)
    objects = []
    for src, name in zip(ctx.files.srcs, object_names(ctx, ctx.files.srcs)):
        out = ctx.actions.declare_file("{}/host/{}.o".format(ctx.label.name, name))
        args = _arguments(ctx, toolchain, src)

        # With relocatable device code, host code says in offload entries what it
        # has kernels for, instead of holding their code.
        args.add_all(["--offload-host-only", "--offload-new-driver", "-fgpu-rdc", "-fPIC", "-c"])
        add_headers(args, headers, out)
        args.add_all(copts)
        args.add("-o", out)
        args.add(src)
        run_clang(
            ctx,
            arguments = args,
            group = COMPILE_GROUP,
            inputs = depset([src], transitive = [headers.files]),
            mnemonic = "OffloadHipHostCompile",
            out = out,
            progress_message = "Compiling {} for the host".format(src.short_path),
            toolchain = toolchain,
        )
        objects.append(out)
    return objects
