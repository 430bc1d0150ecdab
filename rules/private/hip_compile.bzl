"""From HIP sources to code objects and host objects."""

load("//rules:providers.bzl", "OffloadDeviceObjectsInfo", "OffloadImagesInfo", "offload_image")
load(":architectures.bzl", "architectures_of")
load(":cc_flags.bzl", "host_environment", "host_flags")
load(":clang.bzl", "COMPILE_GROUP", "LINK_GROUP", "add_headers", "add_rocm", "clang_arguments", "compilation_id", "object_names", "run_clang", "sources_of")
load(":device_link.bzl", "add_amdgpu_lto", "code_generation_flags", "flags_for")
load(":flags.bzl", "add_flags")
load(":linking.bzl", "host_triple")
load(":messages.bzl", "name_of")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "device_toolchain_of")

# The kind that clang gives HIP code objects since code object version 4.
_KIND = "hipv4"

# AMD's portable code is SPIR-V, which the runtime compiles for the GPU that is there. It has no objects: sources are
# compiled to bitcode, and bitcode is linked to SPIR-V.
def _is_portable(target):
    return target.triple.startswith("spirv64-")

# The attribute of a rule whose sources may call device functions of others.
DEVICE_DEPS_ATTRS = {
    "device_deps": attr.label_list(
        doc = "Targets whose device functions the sources call, compiled for the same architectures: `hip_library`, and " +
              "`hip_code_objects` with `rdc = True`. Their sources are linked into the device code as objects of an archive are: " +
              "those that are needed, so that variables of theirs are there once more. A `hip_library` is among `deps`, too.",
        providers = [OffloadImagesInfo],
    ),
}

def _arguments(ctx, toolchain, src):
    args = clang_arguments(ctx)
    args.add_all(["-x", "hip"])
    args.add_all(toolchain.compile_flags)
    args.add_all(toolchain.mode_flags[ctx.var["COMPILATION_MODE"]])
    add_rocm(args, toolchain)
    args.add(compilation_id(ctx, src), format = "-cuid=%s")
    return args

def _compile(ctx, toolchain, headers, src, name, target, rdc, copts):
    arch = target.target_id
    bitcode = rdc or _is_portable(target)
    out = ctx.actions.declare_file("{}/{}/{}.{}".format(
        ctx.label.name,
        target_ids.file_name(arch),
        name,
        "bc" if bitcode else "o",
    ))
    args = _arguments(ctx, toolchain, src)
    args.add_all(["--offload-device-only", "--no-gpu-bundle-output"])
    args.add(arch, format = "--offload-arch=%s")
    if rdc:
        args.add("-fgpu-rdc")
    if bitcode:
        args.add_all(["-emit-llvm", "-c"])
    else:
        # The driver links what it assembles; to keep the link an action of its
        # own it is told to stop before, and the compiler to write an object.
        args.add_all(["-S", "-Xclang", "-emit-obj"])
    add_headers(args, headers, out)
    add_flags(args, copts, out)
    args.add("-o", out)
    args.add(src)
    run_clang(
        ctx,
        arguments = args,
        group = COMPILE_GROUP,
        inputs = depset([src], transitive = [headers.files]),
        # Portable code holds the compiler's command line: what compiles it on takes the optimization level from there.
        maps_paths = not _is_portable(target),
        mnemonic = "OffloadHipPortableCompile" if _is_portable(target) else "OffloadHipCompile",
        out = out,
        progress_message = "Compiling {} for {}".format(src.short_path, arch),
        toolchain = toolchain,
    )
    return out

def _link(ctx, toolchain, objects, library, target, rdc, copts, linkopts):
    arch = target.target_id
    portable = _is_portable(target)
    out = ctx.actions.declare_file("{}/{}.{}".format(ctx.label.name, target_ids.file_name(arch), "spv" if portable else "co"))
    args = clang_arguments(ctx)
    if portable:
        # By LLVM itself: the translator is a program that few distributions have.
        args.add_all(["--target=spirv64-amd-amdhsa", "-use-spirv-backend"])
    else:
        args.add("--target=amdgcn-amd-amdhsa")
        args.add(arch, format = "-mcpu=%s")

    # The compilations have linked the device libraries. Some releases of clang would link them again, others warn
    # that there is nothing to turn off.
    args.add_all(["-nogpulib", "-Wno-unused-command-line-argument"])
    if rdc or portable:
        add_flags(args, code_generation_flags(toolchain.compile_flags + toolchain.mode_flags[ctx.var["COMPILATION_MODE"]] + copts), out)
    args.add_all(toolchain.link_flags)
    add_flags(args, flags_for(target, linkopts), out)
    args.add("-o", out)
    if portable:
        args.add_all(objects + library)
    elif rdc:
        add_amdgpu_lto(args, objects, hip = True, library = library)
    else:
        args.add_all(objects)
    run_clang(
        ctx,
        arguments = args,
        group = LINK_GROUP,
        inputs = depset(objects + library),
        mnemonic = "OffloadDeviceLink",
        out = out,
        progress_message = "Linking %{label} for " + arch,
        toolchain = toolchain,
    )
    return out

def _objects_of(dep, targets, where):
    """The relocatable device code of a target in device_deps; fails if it is not for all of some targets."""
    if OffloadDeviceObjectsInfo not in dep:
        fail("{}: device_deps: {} has no relocatable device code: it takes hip_library targets, and hip_code_objects with rdc = True".format(
            where,
            name_of(dep.label),
        ))
    objects = dep[OffloadDeviceObjectsInfo].objects
    ids = {object.id: None for object in objects.to_list()}
    for target in targets:
        if target_ids.entry_id(target.kind, target.triple, target.target_id) not in ids:
            fail("{}: device_deps: {} is not compiled for {}, but for {}: give both the same offload_archs".format(
                where,
                name_of(dep.label),
                target.target_id,
                ", ".join([target_ids.complete("", id, where).target_id for id in ids]),
            ))
    return objects

def hip_images(ctx, *, where, headers, rdc, copts, linkopts):
    """Compiles the sources of a rule for its architectures, and links each.

    Args:
      ctx: the rule's context; it has `srcs`, `device_deps`, `CLANG_GROUPS` and `ARCHITECTURES_ATTRS`.
      where: `label: rule` to begin a message with.
      headers: what `headers_of` gave.
      rdc: whether the sources are compiled to bitcode, and code is generated in the link.
      copts: compiler flags.
      linkopts: flags of the device link.

    Returns:
      list of `offload_image()`, one for each architecture; an OffloadDeviceObjectsInfo, None without rdc.
    """
    if not sources_of(ctx):
        fail("{}: srcs is empty: give it the HIP sources".format(where))
    targets = architectures_of(ctx, where, _KIND)
    for target in targets:
        if target.kind != _KIND or not (target.triple.startswith("amdgcn-") or _is_portable(target)) or not target.target_id:
            fail("{}: offload_archs: {} is not an AMD GPU: HIP code objects are for target IDs like gfx942 or gfx90a:xnack+, and amdgcnspirv".format(
                where,
                target.target_id or target_ids.entry_id(target.kind, target.triple, ""),
            ))
    if ctx.attr.device_deps and not rdc:
        fail("{}: device_deps needs rdc = True: without it, a source calls no device function of another".format(where))
    deps = depset(transitive = [_objects_of(dep, targets, where) for dep in ctx.attr.device_deps])
    compiler = device_toolchain_of(ctx, COMPILE_GROUP)
    linker = device_toolchain_of(ctx, LINK_GROUP)
    names = object_names(ctx, sources_of(ctx))

    images = []
    own = []
    for target in targets:
        arch = target.target_id
        id = target_ids.entry_id(target.kind, target.triple, arch)
        objects = [
            _compile(ctx, compiler, headers, src, name, target, rdc, copts)
            for src, name in zip(sources_of(ctx), names)
        ]
        own.extend([struct(file = file, id = id, label = ctx.label) for file in objects])
        library = [object.file for object in deps.to_list() if object.id == id]
        images.append(offload_image(
            file = _link(ctx, linker, objects, library, target, rdc, copts, linkopts),
            kind = _KIND,
            label = ctx.label,
            target_id = arch,
            triple = target.triple,
        ))
    if not rdc:
        return images, None
    return images, OffloadDeviceObjectsInfo(objects = depset(own, transitive = [deps]))

def hip_host_objects(ctx, *, cc, headers, copts):
    """Compiles the host code of the sources of a rule. It does not depend on device code.

    Args:
      ctx: the rule's context; it has `srcs`, `CLANG_GROUPS` and `HOST_ATTRS`.
      cc: what `cc_configuration` gave.
      headers: what `headers_of` gave.
      copts: compiler flags.

    Returns:
      list of Files, objects with offload entries.
    """
    toolchain = device_toolchain_of(ctx, COMPILE_GROUP)
    objects = []
    for src, name in zip(sources_of(ctx), object_names(ctx, sources_of(ctx))):
        out = ctx.actions.declare_file("{}/host/{}.o".format(ctx.label.name, name))
        args = clang_arguments(ctx)
        args.add_all(["-x", "hip"])
        args.add(host_triple(ctx), format = "--target=%s")
        add_flags(args, host_flags(ctx, cc), out)
        add_rocm(args, toolchain)
        args.add(compilation_id(ctx, src), format = "-cuid=%s")

        # With relocatable device code, host code says in offload entries what it
        # has kernels for, instead of holding their code.
        args.add_all(["--offload-host-only", "--offload-new-driver", "-fgpu-rdc", "-fPIC", "-c"])
        add_headers(args, headers, out)
        add_flags(args, copts, out)
        args.add("-o", out)
        args.add(src)
        run_clang(
            ctx,
            arguments = args,
            env = host_environment(cc),
            group = COMPILE_GROUP,
            inputs = depset([src], transitive = [headers.files, cc.toolchain.all_files]),
            mnemonic = "OffloadHipHostCompile",
            out = out,
            progress_message = "Compiling {} for the host".format(src.short_path),
            toolchain = toolchain,
        )
        objects.append(out)
    return objects
