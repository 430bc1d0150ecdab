"""From HIP sources to code objects and host objects."""

load("//rules:providers.bzl", "OffloadDeviceBitcodeInfo", "OffloadDeviceObjectsInfo", "OffloadImagesInfo", "offload_image")
load(":architectures.bzl", "HIP_KIND", "arch_copts_of", "arch_sources_of", "hip_targets")
load(":cc_flags.bzl", "host_environment", "host_flags")
load(":clang.bzl", "COMPILE_GROUP", "LINK_GROUP", "add_headers", "add_rocm", "clang_arguments", "compilation_id", "object_names", "rocm_inputs", "run_clang", "sources_of")
load(":device_bitcode.bzl", "add_bitcode", "bitcode_for")
load(":device_link.bzl", "add_amdgpu_lto", "code_generation_flags", "flags_for")
load(":flags.bzl", "add_flags")
load(":linking.bzl", "host_triple")
load(":messages.bzl", "name_of")
load(":program.bzl", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "device_toolchain_of")

# AMD's portable code is SPIR-V, which the runtime compiles for the GPU that is there. It has no objects: sources are
# compiled to bitcode, and bitcode is linked to SPIR-V.
_is_portable = target_ids.is_portable

# Compiling takes no program but the compiler; only what is linked from elsewhere is checked.
def _program_for(device_deps):
    return Label("//rules/toolchain:program") if device_deps else None

# The attributes of a rule whose sources may call device functions of others.
DEVICE_DEPS_ATTRS = {
    "_checking_program": attr.label(
        cfg = "exec",
        default = _program_for,
        executable = True,
    ),
    "device_deps": attr.label_list(
        doc = "Targets whose device functions the sources call, compiled for the same architectures: `hip_library` and " +
              "`hip_code_objects` with `rdc = True`. Their sources are linked into the device code as objects of an archive are: " +
              "those that are needed. If such a source has a variable, the build fails, since the variable would be there " +
              "twice: `hip_device_link` links all of a program at once. A `hip_library` is among `deps`, too. Also " +
              "`device_bitcode_library` targets, with and without `rdc`: what a source calls of them becomes part of its code.",
        providers = [[OffloadImagesInfo], [OffloadDeviceBitcodeInfo]],
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

def _compile(ctx, toolchain, headers, src, name, target, rdc, copts, library):
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
    add_bitcode(args, library)
    args.add("-o", out)
    args.add(src)
    run_clang(
        ctx,
        arguments = args,
        group = COMPILE_GROUP,
        inputs = depset([src] + library, transitive = [headers.files, rocm_inputs(toolchain, arch)]),
        # Portable code holds the compiler's command line: what compiles it on takes the optimization level from there.
        maps_paths = not _is_portable(target),
        mnemonic = "OffloadHipPortableCompile" if _is_portable(target) else "OffloadHipCompile",
        out = out,
        progress_message = "Compiling {} for {}".format(src.short_path, arch),
        toolchain = toolchain,
    )
    return out

def device_link(ctx, *, toolchain, target, objects, rdc, copts, linkopts, library = [], checked = [], name = ""):
    """Links device code for one architecture.

    Args:
      ctx: the rule's context; the rule has `CLANG_GROUPS`.
      toolchain: what `device_toolchain_of` gave for LINK_GROUP.
      target: struct as `target_ids.complete` gives it.
      objects: list of Files: objects, with rdc bitcode.
      rdc: whether the link generates code.
      copts: compiler flags, some of which count when the link generates code.
      linkopts: flags of the device link.
      library: list of Files with bitcode, of which what is needed is linked.
      checked: list of Files that must be there before.
      name: what of the rule's is linked; empty for all.

    Returns:
      the image.
    """
    arch = target.target_id
    portable = _is_portable(target)
    out = ctx.actions.declare_file("{}/{}{}.{}".format(ctx.label.name, target_ids.file_name(arch), "/" + name if name else "", "spv" if portable else "co"))
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
        add_flags(args, code_generation_flags(toolchain.compile_flags + toolchain.mode_flags[ctx.var["COMPILATION_MODE"]] + copts, target), out)
    args.add_all(toolchain.link_flags)
    add_flags(args, flags_for(target, linkopts), out)
    args.add("-o", out)
    if portable:
        args.add_all(objects + library)
    elif rdc:
        add_amdgpu_lto(args, objects, hip = True, library = library, release = toolchain.release)
    else:
        args.add_all(objects)
    run_clang(
        ctx,
        arguments = args,
        group = LINK_GROUP,
        inputs = depset(objects + library + checked),
        mnemonic = "OffloadDeviceLink",
        out = out,
        progress_message = "Linking {}%{{label}} for {}".format(name + " of " if name else "", arch),
        toolchain = toolchain,
    )
    return out

def _objects_of(dep, targets, where):
    """The relocatable device code of a target in device_deps; fails if it is not for all of some targets."""
    if OffloadDeviceObjectsInfo not in dep:
        fail("{}: device_deps: {} has no relocatable device code: it takes hip_library targets, and hip_code_objects with rdc = True, and device_bitcode_library targets".format(
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

def _check_copies(ctx, *, objects, library, labels, out):
    """Registers the action that fails if a link would copy variables of other libraries."""
    args = offload_arguments(ctx, "check-device-deps")
    args.add(out, format = "--output=%s")
    args.add(name_of(ctx.label), format = "--target=%s")
    for file, label in zip(library, labels):
        args.add(file, format = "--library={}=%s".format(name_of(label)))
    args.add_all(objects)
    run_offload(
        ctx,
        arguments = args,
        executable = ctx.attr._checking_program[DefaultInfo].files_to_run,
        inputs = objects + library,
        mnemonic = "OffloadDeviceDeps",
        outputs = [out],
        progress_message = "Checking the device_deps of %{label}",
    )

def hip_images(ctx, *, where, headers, rdc, copts, linkopts, per_source = False, linked = True):
    """Compiles the sources of a rule for its architectures, and links each.

    Args:
      ctx: the rule's context; it has `srcs`, `device_deps`, `DEVICE_DEPS_ATTRS`, `CLANG_GROUPS`, `ARCHITECTURES_ATTRS` and `ARCH_COPTS_ATTRS`.
      where: `label: rule` to begin a message with.
      headers: what `headers_of` gave.
      rdc: whether the sources are compiled to bitcode, and code is generated in the link.
      copts: compiler flags.
      linkopts: flags of the device link.
      per_source: whether each source is linked alone.
      linked: whether the sources are linked at all.

    Returns:
      a struct with units, a list of structs for what is linked together: name (that of the source, empty for all) and
      images (list of `offload_image()`, one for each architecture); and objects, an OffloadDeviceObjectsInfo, None
      without rdc.
    """
    by_arch = hasattr(ctx.attr, "arch_srcs")
    if not sources_of(ctx) and not (by_arch and ctx.attr.arch_srcs):
        fail("{}: srcs is empty: give it the HIP sources".format(where))
    targets = hip_targets(ctx, where)
    relocatable = [dep for dep in ctx.attr.device_deps if OffloadDeviceBitcodeInfo not in dep]
    if relocatable and not rdc:
        fail("{}: device_deps needs rdc = True for {}: without it, a source calls no device function of another, but for those of a device_bitcode_library".format(where, name_of(relocatable[0].label)))
    deps = depset(transitive = [_objects_of(dep, targets, where) for dep in relocatable])
    compiler = device_toolchain_of(ctx, COMPILE_GROUP)
    linker = device_toolchain_of(ctx, LINK_GROUP)
    names = object_names(ctx, sources_of(ctx))
    units = {name: [] for name in names} if per_source and len(names) > 1 else {"": []}

    own = []
    for target in targets:
        arch = target.target_id
        id = target_ids.entry_id(target.kind, target.triple, arch)
        flags = copts + arch_copts_of(ctx, target)
        bitcode = bitcode_for(ctx.attr.device_deps, target, where)
        sources = sources_of(ctx) + (arch_sources_of(ctx, target, where) if by_arch else [])
        if not sources:
            fail("{}: there is no source for {}: srcs is empty, and arch_srcs has none for it".format(where, arch))
        objects = {
            name: _compile(ctx, compiler, headers, src, name, target, rdc, flags, bitcode)
            for src, name in zip(sources, object_names(ctx, sources))
        }
        own.extend([struct(file = file, id = id, label = ctx.label) for file in objects.values()])
        if not linked:
            continue
        library = [object for object in deps.to_list() if object.id == id]
        checked = []
        if library:
            checked.append(ctx.actions.declare_file("{}/{}.device_deps".format(ctx.label.name, target_ids.file_name(arch))))
            _check_copies(
                ctx,
                labels = [object.label for object in library],
                library = [object.file for object in library],
                objects = objects.values(),
                out = checked[0],
            )
        for unit, images in units.items():
            file = device_link(
                ctx,
                checked = checked,
                copts = flags,
                library = [object.file for object in library],
                linkopts = linkopts,
                name = unit,
                objects = [objects[unit]] if unit else objects.values(),
                rdc = rdc,
                target = target,
                toolchain = linker,
            )
            images.append(offload_image(
                file = file,
                kind = HIP_KIND,
                label = ctx.label,
                target_id = arch,
                triple = target.triple,
            ))
    return struct(
        objects = OffloadDeviceObjectsInfo(objects = depset(own, transitive = [deps])) if rdc else None,
        units = [struct(images = images, name = name) for name, images in units.items() if linked],
    )

def hip_host_objects(ctx, *, cc, headers, copts, rdc):
    """Compiles the host code of the sources of a rule. It does not depend on device code.

    Args:
      ctx: the rule's context; it has `srcs`, `CLANG_GROUPS` and `HOST_ATTRS`.
      cc: what `cc_configuration` gave.
      headers: what `headers_of` gave.
      copts: compiler flags.
      rdc: whether device code is relocatable.

    Returns:
      list of Files: with rdc, objects with offload entries; without, objects that refer to a fat binary each.
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
        # has kernels for. Without, it registers a fat binary, which is in an object
        # of its own, since it is not at hand here.
        args.add("--offload-host-only")
        args.add_all(["--offload-new-driver", "-fgpu-rdc"] if rdc else [])
        args.add_all(["-fPIC", "-c"])
        add_headers(args, headers, out)
        add_flags(args, copts, out)
        args.add("-o", out)
        args.add(src)
        run_clang(
            ctx,
            arguments = args,
            env = host_environment(cc),
            group = COMPILE_GROUP,
            inputs = depset([src], transitive = [headers.files, cc.toolchain.all_files, rocm_inputs(toolchain)]),
            mnemonic = "OffloadHipHostCompile",
            out = out,
            progress_message = "Compiling {} for the host".format(src.short_path),
            toolchain = toolchain,
        )
        objects.append(out)
    return objects
