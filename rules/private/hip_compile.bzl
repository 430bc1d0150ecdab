"""Compiles HIP sources to code objects and host objects."""

load("//rules:providers.bzl", "OffloadDeviceBitcodeInfo", "OffloadDeviceObjectsInfo", "OffloadImagesInfo")
load(":architectures.bzl", "arch_copts_of", "arch_linkopts_of", "arch_sources_of", "check_compiler", "device_linkopts_of", "hip_targets", "sources_for")
load(":compilation.bzl", "CODE_LANGUAGES", "bitcode_step", "c_step", "code_step", "compile", "hip_device_step", "hip_host_step", "is_assembly", "is_bitcode")
load(":debug_info.bzl", "split_debug_info")
load(":device_bitcode.bzl", "bitcode_for")
load(":device_link.bzl", "device_link", "hip_link_step")
load(":flags.bzl", "expand_flags", "language_copts")
load(":messages.bzl", "file_name", "name_of")
load(":program.bzl", "offload_arguments", "run_offload")
load(":sanitizers.bzl", "sanitizer_flags")
load(":sources.bzl", "CODE_OBJECTS", "CODE_SOURCES", "HIP_SOURCES", "compilation_id", "object_names", "require_sources", "source_name", "sources_of")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "LINK_GROUP")

# The attributes of a rule whose sources can call device functions of other targets.
DEVICE_DEPS_ATTRS = {
    "device_deps": attr.label_list(
        doc = "Targets whose device functions the sources call, compiled for the same architectures: `hip_library` and " +
              "`hip_code_objects` with `rdc = True`. Their sources are linked into the device code like objects of an archive: " +
              "only those that are needed. The build fails if such a source has a variable, because the program would contain two " +
              "copies of it; use `hip_device_link`, which links all device code of a program together. A `hip_library` also acts as one of `deps`. " +
              "`device_bitcode_library` targets are accepted with and without `rdc`: functions that a source calls become part of its code.",
        providers = [[OffloadImagesInfo], [OffloadDeviceBitcodeInfo]],
    ),
}

_UNDEFINED = "add a definition to the source, or set rdc = True if another source has one, or add the device_bitcode_library that has one to device_deps"
_UNDEFINED_RDC = "add a definition to srcs, or add the library that has one to device_deps"

def hip_link(ctx, step, *, path, target, objects, checked = [], name = ""):
    """Links device code for one architecture.

    Args:
      ctx: the rule's context; the rule has `CLANG_GROUPS` and `DEBUG_INFO_ATTRS`.
      step: result of `hip_link_step` for the target.
      path: path of the image, relative to the package and without extension.
      target: struct returned by `target_ids.complete`.
      objects: list of structs: file (an object or bitcode) and source (its name in messages).
      checked: list of Files that must exist before the link.
      name: name of the linked source; empty for all sources.

    Returns:
      an `offload_image()`.
    """
    out = ctx.actions.declare_file(path + step.extension)
    whole, debug_info = split_debug_info(ctx, target, out)
    device_link(
        ctx,
        step,
        checked = checked,
        linked = objects,
        message = "Linking " + (name + " of " if name else "") + "%{label} for " + target.target_id,
        mnemonic = "OffloadDeviceLink",
        out = whole,
    )
    return target_ids.image(target, out, ctx.label, debug_info)

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
        if target.id not in ids:
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
        arguments = [args],
        group = LINK_GROUP,
        inputs = objects + library,
        mnemonic = "OffloadDeviceDeps",
        outputs = [out],
        progress_message = "Checking the device_deps of %{label}",
    )

def hip_sources(ctx):
    """Returns the files in srcs that can have device code, and what all actions of a source have in common.

    Args:
      ctx: the rule's context.

    Returns:
      list of structs: file; id, its compilation ID; name, that of its outputs; title, its name in messages of links.
    """
    files = sources_of(ctx)
    if not _c_as_hip(ctx):
        files = [file for file in files if file.extension != "c"]
    return [
        struct(file = file, id = compilation_id(ctx, file), name = name, title = source_name(ctx.label, file))
        for file, name in zip(files, object_names(ctx, files))
    ]

def _c_as_hip(ctx):
    return getattr(ctx.attr, "c_as_hip", False)

def c_objects(ctx, compiler):
    """Compiles the C sources of a rule.

    Args:
      ctx: the rule's context; it has `CLANG_GROUPS`, `LIBRARY_ATTRS` and `HOST_ATTRS`.
      compiler: result of `compiler_of`.

    Returns:
      list of objects.
    """
    if _c_as_hip(ctx):
        return []
    sources = [src for src in sources_of(ctx) if src.extension == "c"]
    if not sources:
        return []
    objects = []
    copts = language_copts(ctx, "c") + expand_flags(ctx, "host_copts")
    words = " ".join(copts)
    if "-x hip" in words or "-xhip" in words:
        fail("{}: copts: -x hip: {} is compiled as C, for the host only: set c_as_hip = True instead".format(name_of(ctx.label), sources[0].short_path))
    step = c_step(compiler, copts = copts)
    for src, name in zip(sources, object_names(ctx, sources)):
        out = ctx.actions.declare_file("{}/c/{}.o".format(ctx.label.name, name))
        compile(
            ctx,
            compiler,
            step,
            message = "Compiling " + file_name(src),
            mnemonic = "OffloadHipHostCompile",
            out = out,
            src = src,
        )
        objects.append(out)
    return objects

def _other_compilation(ctx, compiler, source, target, *, bitcode, copts, folder, generates, steps, where):
    """Compiles a source of another language than HIP for a target, if it is one.

    Args:
      ctx: as for `hip_images`.
      compiler: result of `compiler_of`.
      source: a struct of `hip_sources`.
      target: struct returned by `target_ids.complete`.
      bitcode: list of Files of which the code uses functions.
      copts: compiler flags.
      folder: the directory of outputs.
      generates: whether the link generates code, from bitcode.
      steps: dict from a language to its step.
      where: prefix of error messages, `label: rule`.

    Returns:
      the object or bitcode, a File; None for HIP.
    """
    file = source.file
    if "." + file.extension not in CODE_OBJECTS + CODE_SOURCES:
        return None
    language = CODE_LANGUAGES.get(file.extension)
    machine_code = not language or is_assembly(language)
    if machine_code and target.portable:
        fail("{}: srcs: {} is for one kind of GPU, not for {}: name its GPUs in arch_srcs, or leave {} out of offload_archs".format(
            where,
            file.short_path,
            target.target_id,
            target.target_id,
        ))
    if not language:
        return file
    as_bitcode = generates and not machine_code
    if language not in steps:
        flags = [flag for flag in copts if not flag.startswith(("-std=c++", "-std=gnu++"))]
        if as_bitcode:
            steps[language] = bitcode_step(compiler, target, copts = flags, language = language)
        else:
            steps[language] = code_step(compiler, target, bitcode = bitcode, copts = flags, language = language)
    out = ctx.actions.declare_file(folder + "/" + source.name + (".bc" if as_bitcode else ".o"))
    compile(
        ctx,
        compiler,
        steps[language],
        message = "Compiling " + file.short_path + " for " + target.target_id,
        mnemonic = "OffloadCodeCompile",
        out = out,
        src = file,
    )
    return out

def hip_images(ctx, compiler, *, where, sources, rdc, lto, copts, device_only = False, per_source = False, linked = True):
    """Compiles the sources of a rule for its architectures and links the code of each architecture.

    Args:
      ctx: the rule's context; it has `srcs`, `ARCH_SRCS_ATTRS`, `DEVICE_DEPS_ATTRS`, `CLANG_GROUPS`, `HOST_ATTRS`, `ARCHITECTURES_ATTRS`, `ARCH_COPTS_ATTRS` and `DEVICE_LINKOPTS_ATTRS`.
      compiler: result of `compiler_of`.
      where: prefix of error messages, `label: rule`.
      sources: result of `hip_sources`.
      rdc: whether sources can call device functions of each other.
      lto: result of `lto_of`.
      copts: compiler flags.
      device_only: whether there is no host code.
      per_source: whether each source is linked separately.
      linked: whether the sources are linked at all.

    Returns:
      a struct with units, a list of structs, one for each link: name (of the source, empty for all sources) and
      images (list of `offload_image()`, one for each architecture); and objects, an OffloadDeviceObjectsInfo, None
      without rdc.
    """
    by_arch = arch_sources_of(ctx, where, HIP_SOURCES + (CODE_SOURCES + CODE_OBJECTS if device_only else []) + ([".c"] if _c_as_hip(ctx) else []))
    require_sources(ctx, where, "add HIP sources")
    targets = hip_targets(ctx, where)
    relocatable = [dep for dep in ctx.attr.device_deps if OffloadDeviceBitcodeInfo not in dep]
    if relocatable and not rdc:
        fail("{}: device_deps requires rdc = True for {}: without it, a source can only call device functions of a device_bitcode_library".format(where, name_of(relocatable[0].label)))
    deps = depset(transitive = [_objects_of(dep, targets, where) for dep in relocatable])
    check_compiler(compiler.clang, targets, where)
    by_source = per_source and len(sources) > 1
    units = {source.name: [] for source in sources} if by_source else {"": []}
    language_flags = compiler.language_flags("c++", True)
    device_linkopts = device_linkopts_of(ctx)
    sanitizer = sanitizer_flags(compiler, targets, where, copts = copts)

    own = []
    for target in targets:
        arch = target.target_id
        flags = copts + arch_copts_of(ctx, target) + sanitizer.get(arch, [])
        bitcode = bitcode_for(ctx.attr.device_deps, target, where)
        own_sources = sources
        if by_arch:
            files = sources_for([source.file for source in sources], by_arch, target)
            own_sources = [source for source in sources if source.file in files]
        if not own_sources and not per_source:
            fail("{}: no source for {}: arch_srcs has all of srcs, and no source for it; add one, or leave {} out of offload_archs".format(where, arch, arch))
        own_lto = lto(target)
        generates = is_bitcode(target, lto = own_lto, rdc = rdc)
        folder = ctx.label.name + "/" + target_ids.file_name(arch)
        extension = ".bc" if generates else ".o"
        mnemonic = "OffloadHipPortableCompile" if target.portable else "OffloadHipCompile"
        step = hip_device_step(compiler, target, bitcode = bitcode, copts = flags, lto = own_lto, rdc = rdc)
        compiled = {}
        steps = {}
        for source in own_sources:
            other = _other_compilation(ctx, compiler, source, target, bitcode = bitcode, copts = flags, folder = folder, generates = generates, steps = steps, where = where)
            if other:
                compiled[source.name] = struct(file = other, id = target.id, label = ctx.label, source = source.title)
                continue
            out = ctx.actions.declare_file(folder + "/" + source.name + extension)
            compile(
                ctx,
                compiler,
                step,
                id = source.id,
                message = "Compiling " + file_name(source.file) + " for " + arch,
                mnemonic = mnemonic,
                out = out,
                src = source.file,
            )
            compiled[source.name] = struct(file = out, id = target.id, label = ctx.label, source = source.title)
        if rdc:
            # Other targets cannot link objects of assembly: their links generate code from bitcode.
            own.extend([object for object in compiled.values() if object.file.extension == "bc"])
        if not linked:
            continue
        library = [object for object in deps.to_list() if object.id == target.id] if relocatable else []
        checked = []
        if library:
            checked.append(ctx.actions.declare_file(folder + ".device_deps"))
            _check_copies(
                ctx,
                labels = [object.label for object in library],
                library = [object.file for object in library],
                objects = [object.file for object in compiled.values()],
                out = checked[0],
            )
        link_step = hip_link_step(
            ctx,
            target,
            advice = _UNDEFINED_RDC if rdc else _UNDEFINED,
            copts = language_flags + flags,
            device_only = device_only,
            generates = generates,
            library = [_named(object) for object in library],
            linkopts = device_linkopts + arch_linkopts_of(ctx, target),
        )
        for unit, images in units.items():
            if not compiled or (unit and unit not in compiled):
                # A source that is not for this architecture.
                continue
            images.append(hip_link(
                ctx,
                link_step,
                checked = checked,
                name = unit,
                objects = [compiled[unit]] if unit else compiled.values(),
                path = folder + "/" + unit if unit else folder,
                target = target,
            ))
    return struct(
        objects = OffloadDeviceObjectsInfo(objects = depset(own, transitive = [deps])) if rdc else None,
        units = [struct(images = images, name = name) for name, images in units.items() if linked],
    )

def hip_host_objects(ctx, compiler, *, sources, copts, entries, rdc):
    """Compiles the host code of the sources of a rule. The compilations do not depend on device code.

    Args:
      ctx: the rule's context; it has `CLANG_GROUPS` and `HOST_ATTRS`.
      compiler: result of `compiler_of`.
      sources: result of `hip_sources`.
      copts: compiler flags.
      entries: result of `own_entries`.
      rdc: whether device code is relocatable.

    Returns:
      list of Files: with rdc, objects with offload entries; without rdc, objects that each refer to a fat binary.
    """
    objects = []
    step = hip_host_step(compiler, copts = copts, entries = entries, rdc = rdc)
    for source in sources:
        out = ctx.actions.declare_file(ctx.label.name + "/host/" + source.name + ".o")
        compile(
            ctx,
            compiler,
            step,
            id = source.id,
            message = "Compiling " + file_name(source.file) + " for the host",
            mnemonic = "OffloadHipHostCompile",
            out = out,
            src = source.file,
        )
        objects.append(out)
    return objects
