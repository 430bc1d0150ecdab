"""Compiles HIP sources to code objects and host objects."""

load("//rules:providers.bzl", "OffloadDeviceBitcodeInfo", "OffloadDeviceObjectsInfo", "OffloadImagesInfo", "offload_image")
load(":architectures.bzl", "HIP_KIND", "arch_copts_of", "arch_sources_of", "check_compiler", "hip_targets")
load(":cc_flags.bzl", "headers_files", "host_environment", "host_flags")
load(":clang.bzl", "COMPILE_GROUP", "LINK_GROUP", "add_headers", "add_rocm", "clang_arguments", "compilation_id", "object_names", "rocm_inputs", "run_clang", "source_name", "sources_of")
load(":device_bitcode.bzl", "add_bitcode", "bitcode_for")
load(":device_link.bzl", "add_amdgpu_lto", "code_generation_flags", "flags_for")
load(":flags.bzl", "add_flags")
load(":linking.bzl", "host_triple", "linux_triple")
load(":messages.bzl", "name_of")
load(":program.bzl", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "device_toolchain_of")

# AMD's portable code is SPIR-V, which the runtime compiles for the GPU of the machine. It has no object format: sources
# are compiled to bitcode, and bitcode is linked to SPIR-V.
_is_portable = target_ids.is_portable

# The attributes of a rule whose sources can call device functions of other targets.
DEVICE_DEPS_ATTRS = {
    "device_deps": attr.label_list(
        doc = "Targets whose device functions the sources call, compiled for the same architectures: `hip_library` and " +
              "`hip_code_objects` with `rdc = True`. Their sources are linked into the device code like objects of an archive: " +
              "only those that are needed. The build fails if such a source has a variable, because the program would contain two " +
              "copies of it; use `hip_device_link`, which links a program at once. A `hip_library` also acts as one of `deps`. " +
              "`device_bitcode_library` targets are accepted with and without `rdc`: functions that a source calls become part of its code.",
        providers = [[OffloadImagesInfo], [OffloadDeviceBitcodeInfo]],
    ),
}

def _arguments(ctx, toolchain, src):
    args = clang_arguments(ctx)
    args.add_all(["-x", "hip"])
    args.add_all([linux_triple(ctx)], format_each = "--target=%s")
    args.add_all(toolchain.compile_flags)
    args.add_all(toolchain.mode_flags[ctx.var["COMPILATION_MODE"]])
    add_rocm(args, toolchain)
    args.add(compilation_id(ctx, src), format = "-cuid=%s")
    return args

def _compile(ctx, toolchain, cc, headers, src, name, target, rdc, copts, library):
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
        # The driver links the code that it assembles. To keep the link in a separate
        # action, these flags stop the driver earlier and make the compiler write an object.
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
        # Portable code contains the compiler's command line, from which the runtime takes the optimization level.
        headers = None if _is_portable(target) else headers.headers,
        inputs = depset([src] + library, transitive = [headers.files, headers_files(cc), rocm_inputs(toolchain, arch)]),
        maps_paths = not _is_portable(target),
        mnemonic = "OffloadHipPortableCompile" if _is_portable(target) else "OffloadHipCompile",
        out = out,
        progress_message = "Compiling {} for {}".format(src.short_path, arch),
        toolchain = toolchain,
    )
    return out

_UNDEFINED = "add a definition to the source, or set rdc = True if another source has one, or add the device_bitcode_library that has one to device_deps"
_UNDEFINED_RDC = "add a definition to srcs, or add the library that has one to device_deps"

def device_link(ctx, *, toolchain, target, objects, rdc, copts, linkopts, library = [], checked = [], name = "", advice = None):
    """Links device code for one architecture.

    Args:
      ctx: the rule's context; the rule has `CLANG_GROUPS`.
      toolchain: result of `device_toolchain_of` for LINK_GROUP.
      target: struct returned by `target_ids.complete`.
      objects: list of structs: file (an object, with rdc bitcode) and source (its name in messages).
      rdc: whether the link generates code.
      copts: compiler flags, some of which apply if the link generates code.
      linkopts: flags of the device link.
      library: list of such structs with bitcode, of which only the needed parts are linked.
      checked: list of Files that must exist before the link.
      name: name of the linked source; empty for all sources.
      advice: what to do about undefined symbols, if it is not to add a source or a target of device_deps.

    Returns:
      the image.
    """
    arch = target.target_id
    portable = _is_portable(target)
    linked = objects + library
    objects = [object.file for object in objects]
    library = [object.file for object in library]
    out = ctx.actions.declare_file("{}/{}{}.{}".format(ctx.label.name, target_ids.file_name(arch), "/" + name if name else "", "spv" if portable else "co"))
    args = clang_arguments(ctx)
    if portable:
        # Use LLVM's backend: few distributions have the translator.
        args.add_all(["--target=spirv64-amd-amdhsa", "-use-spirv-backend"])
    else:
        args.add("--target=amdgcn-amd-amdhsa")
        args.add(arch, format = "-mcpu=%s")

    # The compilations have linked the device libraries. Some releases of clang would link them again, others warn
    # that the flag is unused.
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
        advice = advice or (_UNDEFINED_RDC if rdc else _UNDEFINED),
        group = LINK_GROUP,
        inputs = depset(objects + library + checked),
        linked = linked,
        mnemonic = "OffloadDeviceLink",
        out = out,
        progress_message = "Linking {}%{{label}} for {}".format(name + " of " if name else "", arch),
        toolchain = toolchain,
    )
    return out

def _objects_of(dep, targets, where):
    """Returns the relocatable device code of a target in device_deps; fails if a requested architecture is missing."""
    if OffloadDeviceObjectsInfo not in dep:
        fail("{}: device_deps: {} has no relocatable device code: expected hip_library, device_bitcode_library, or hip_code_objects with rdc = True".format(
            where,
            name_of(dep.label),
        ))
    objects = dep[OffloadDeviceObjectsInfo].objects
    ids = {object.id: None for object in objects.to_list()}
    for target in targets:
        if target_ids.entry_id(target.kind, target.triple, target.target_id) not in ids:
            fail("{}: device_deps: {} is not compiled for {}, but for {}: set the same offload_archs for both".format(
                where,
                name_of(dep.label),
                target.target_id,
                ", ".join([target_ids.complete("", id, where).target_id for id in ids]),
            ))
    return objects

def _named(object):
    """Returns an object of an OffloadDeviceObjectsInfo with the name of its source, which providers of others may lack."""
    return struct(file = object.file, source = getattr(object, "source", "") or name_of(object.label))

def _check_copies(ctx, *, objects, library, labels, out):
    """Registers the action that fails if a link would duplicate variables of other libraries."""
    args = offload_arguments(ctx, "check-device-deps")
    args.add(out, format = "--output=%s")
    args.add(name_of(ctx.label), format = "--target=%s")
    for file, label in zip(library, labels):
        args.add(file, format = "--library={}=%s".format(name_of(label)))
    args.add_all(objects)
    run_offload(
        ctx,
        arguments = args,
        group = LINK_GROUP,
        inputs = objects + library,
        mnemonic = "OffloadDeviceDeps",
        outputs = [out],
        progress_message = "Checking the device_deps of %{label}",
    )

def hip_sources(ctx, where):
    """Returns the sources that a rule compiles for any architecture.

    Args:
      ctx: the rule's context; it has `srcs` and `ARCH_SRCS_ATTRS`.
      where: prefix of error messages, `label: rule`.

    Returns:
      list of Files: those of `srcs`, then those of `arch_srcs`.
    """
    sources = {src: None for src in sources_of(ctx)}
    for dep in ctx.attr.arch_srcs:
        for src in dep.files.to_list():
            if src in sources:
                fail("{}: arch_srcs: {} is also in srcs or twice in arch_srcs: srcs are compiled for all architectures, so list it once".format(where, src.short_path))
            sources[src] = None
    return sources.keys()

def hip_images(ctx, *, where, cc, headers, rdc, copts, linkopts, per_source = False, linked = True):
    """Compiles the sources of a rule for its architectures and links the code of each architecture.

    Args:
      ctx: the rule's context; it has `srcs`, `ARCH_SRCS_ATTRS`, `DEVICE_DEPS_ATTRS`, `CLANG_GROUPS`, `HOST_ATTRS`, `ARCHITECTURES_ATTRS` and `ARCH_COPTS_ATTRS`.
      where: prefix of error messages, `label: rule`.
      cc: result of `cc_configuration`, or None.
      headers: result of `headers_of`.
      rdc: whether sources are compiled to bitcode and the link generates code.
      copts: compiler flags.
      linkopts: flags of the device link.
      per_source: whether each source is linked separately.
      linked: whether the sources are linked at all.

    Returns:
      a struct with units, a list of structs, one for each link: name (of the source, empty for all sources) and
      images (list of `offload_image()`, one for each architecture); and objects, an OffloadDeviceObjectsInfo, None
      without rdc.
    """
    names = {src: name for src, name in zip(hip_sources(ctx, where), object_names(ctx, hip_sources(ctx, where)))}
    if not names:
        fail("{}: srcs is empty: add HIP sources".format(where))
    targets = hip_targets(ctx, where)
    relocatable = [dep for dep in ctx.attr.device_deps if OffloadDeviceBitcodeInfo not in dep]
    if relocatable and not rdc:
        fail("{}: device_deps requires rdc = True for {}: without it, a source can only call device functions of a device_bitcode_library".format(where, name_of(relocatable[0].label)))
    deps = depset(transitive = [_objects_of(dep, targets, where) for dep in relocatable])
    compiler = device_toolchain_of(ctx, COMPILE_GROUP)
    linker = device_toolchain_of(ctx, LINK_GROUP)
    check_compiler(compiler, targets, where)
    units = {name: [] for name in names.values()} if per_source and len(names) > 1 else {"": []}

    own = []
    for target in targets:
        arch = target.target_id
        id = target_ids.entry_id(target.kind, target.triple, arch)
        flags = copts + arch_copts_of(ctx, target)
        bitcode = bitcode_for(ctx.attr.device_deps, target, where)
        sources = sources_of(ctx) + arch_sources_of(ctx, target, where)
        if not sources and not per_source:
            fail("{}: no source for {}: srcs is empty, and arch_srcs has no source for it".format(where, arch))
        compiled = {
            names[src]: struct(
                file = _compile(ctx, compiler, cc, headers, src, names[src], target, rdc, flags, bitcode),
                id = id,
                label = ctx.label,
                source = source_name(ctx.label, src),
            )
            for src in sources
        }
        own.extend(compiled.values())
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
                objects = [object.file for object in compiled.values()],
                out = checked[0],
            )
        for unit, images in units.items():
            if not compiled or (unit and unit not in compiled):
                # A source of arch_srcs that is not for this architecture.
                continue
            file = device_link(
                ctx,
                checked = checked,
                copts = flags,
                library = [_named(object) for object in library],
                linkopts = linkopts,
                name = unit,
                objects = [compiled[unit]] if unit else compiled.values(),
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

def hip_host_objects(ctx, *, sources, cc, headers, copts, rdc):
    """Compiles the host code of the sources of a rule. The compilations do not depend on device code.

    Args:
      ctx: the rule's context; it has `CLANG_GROUPS` and `HOST_ATTRS`.
      sources: result of `hip_sources`.
      cc: result of `cc_configuration`.
      headers: result of `headers_of`.
      copts: compiler flags.
      rdc: whether device code is relocatable.

    Returns:
      list of Files: with rdc, objects with offload entries; without rdc, objects that each refer to a fat binary.
    """
    toolchain = device_toolchain_of(ctx, COMPILE_GROUP)
    objects = []
    for src, name in zip(sources, object_names(ctx, sources)):
        out = ctx.actions.declare_file("{}/host/{}.o".format(ctx.label.name, name))
        args = clang_arguments(ctx)
        args.add_all(["-x", "hip"])
        args.add(host_triple(ctx), format = "--target=%s")
        add_flags(args, host_flags(ctx, cc), out)
        add_rocm(args, toolchain)
        args.add(compilation_id(ctx, src), format = "-cuid=%s")

        # With relocatable device code, host code lists its kernels in offload
        # entries. Otherwise, it registers a fat binary, which is in a separate
        # object because this action does not depend on it.
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
            headers = headers.headers,
            inputs = depset([src], transitive = [headers.files, cc.toolchain.all_files, rocm_inputs(toolchain)]),
            mnemonic = "OffloadHipHostCompile",
            out = out,
            progress_message = "Compiling {} for the host".format(src.short_path),
            toolchain = toolchain,
        )
        objects.append(out)
    return objects
