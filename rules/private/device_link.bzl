"""Links of device code, with clang's driver and lld. Everything that reaches lld's command line is in this file.

A rule calls `device_link` for each link, with the result of `hip_link_step`, `ptx_link_step`, `openmp_link_step` or
`merge_objects_step`. `link_program` links what is in the objects of a program. The flags of all links are in this order: target, flags of compilations that affect code generation,
flags of the toolchain, flags of the Bazel target, inputs.
"""

load(":compiler_facts.bzl", "INTERNALIZE", "fact")
load(":flags.bzl", "add_flags")
load(":messages.bzl", "name_of")
load(":program.bzl", "offload_arguments", "offload_program", "run_offload")
load(":ptx.bzl", "ptx_feature")
load(":settings.bzl", "settings_of")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "LINK_GROUP", "check_links_ptx", "device_toolchain_of")

# Compiler flags that affect the code that a link generates from bitcode. Clang's driver passes the same flags to its
# own device links. The bitcode contains the rest, as function attributes and module flags.
_OPTIMIZATION = "-O"
_LLVM = "-mllvm"

# Of these, flags for features of AMD's processors, which functions that the link itself creates take from the command
# line. The value is LLVM's name of the feature.
AMDGPU_FEATURES = {
    "-mamdgpu-precise-memory-op": "+precise-memory",
    "-mcumode": "+cumode",
    "-mno-amdgpu-precise-memory-op": "-precise-memory",
    "-mno-cumode": "-cumode",
    "-mno-tgsplit": "-tgsplit",
    "-mno-wavefrontsize64": "-wavefrontsize64",
    "-mtgsplit": "+tgsplit",
    "-mwavefrontsize64": "+wavefrontsize64",
}

# Prefixes of flags that apply to some of the compilations in one call of clang's driver.
_FOR_ARCH = "-Xarch_"
_FOR_OPENMP = "-Xopenmp-target="

def flags_of_device(flags, target):
    """Selects the flags of a device compilation from flags for several compilations, such as `-Xarch_device FLAG`.

    Args:
      flags: list of compiler flags, one word each.
      target: struct with triple and target_id, returned by `target_ids.complete`; None for any AMD GPU.

    Returns:
      list of flags: those without such a prefix, and those for the device or the target.
    """
    result = []
    prefix = ""
    for flag in flags:
        if prefix:
            if _is_for(prefix, target):
                result.append(flag)
            prefix = ""
        elif flag.startswith(_FOR_ARCH) or flag.startswith(_FOR_OPENMP):
            prefix = flag
        else:
            result.append(flag)
    return result

def _is_for(prefix, target):
    if prefix.startswith(_FOR_OPENMP):
        return target and prefix.removeprefix(_FOR_OPENMP) == target.triple.removesuffix("-").removesuffix("-unknown")
    names = ["device"]
    if target:
        names.extend([target.target_id, target.triple.split("-")[0]])
    return prefix.removeprefix(_FOR_ARCH) in names

def code_generation_flags(flags, target):
    """Selects the flags of a compilation that its device link also requires if it generates code.

    Args:
      flags: list of compiler flags, one word each.
      target: as for `flags_of_device`.

    Returns:
      list of flags for clang.
    """
    flags = flags_of_device(flags, target)
    result = []
    for flag, following in zip(flags, flags[1:] + [""]):
        if flag == _LLVM and following:
            # Clang's driver does not pass them on if it only links.
            result.extend(["-Xlinker", "-plugin-opt=" + following])
        elif flag.startswith(_LLVM + "="):
            result.extend(["-Xlinker", "-plugin-opt=" + flag.removeprefix(_LLVM + "=")])
        elif flag.startswith(_OPTIMIZATION) or flag in AMDGPU_FEATURES:
            result.append(flag)
    return result

def generation_flags(ctx, toolchain, copts, target = None):
    """Returns the flags of compilations that a link also requires if it generates code.

    Args:
      ctx: the rule's context.
      toolchain: result of `device_toolchain_of`.
      copts: list of strings for `add_flags`: the flags of the Bazel target's compilations.
      target: as for `flags_of_device`.

    Returns:
      list of strings for `add_flags`.
    """
    flags = toolchain.compile_flags + toolchain.mode_flags[ctx.var["COMPILATION_MODE"]] + copts + settings_of(ctx).device_copts
    return code_generation_flags(flags, target)

# The passes in optimization records, as clang's flags have them: those whose remarks are about registers, spills and scratch.
RECORDED_PASSES = "prologepilog|regalloc|loop-unroll|inline"

# The pass whose remarks state the resources of each kernel. Not all releases write them to the record: the program moves them there
# from the messages.
RESOURCES_PASS = "kernel-resource-usage"

# The suffix of optimization records, after a dot and the target ID, from which the program takes it.
RECORD_SUFFIX = ".opt.yaml"

def optimization_record(ctx, out, target_id):
    """Declares the optimization record of an action that generates code.

    Args:
      ctx: the rule's context.
      out: the File with the code.
      target_id: the target of the code.

    Returns:
      a File beside `out`.
    """
    return ctx.actions.declare_file("{}.{}{}".format(out.basename, target_id, RECORD_SUFFIX), sibling = out)

def _resources(_os, inputs):
    return {"cpu": 1, "memory": 200 + inputs}

def device_link(ctx, step, *, linked, out, mnemonic, message, checked = []):
    """Registers a link. If lld reports undefined symbols, the build prints which sources refer to them.

    Args:
      ctx: the rule's context; the rule has `CLANG_GROUPS`, `DEVICE_ATTRS` and `LINKER_INPUTS_ATTRS`.
      step: result of a function in this file.
      linked: list of structs: file (an object or bitcode) and source (its name in messages).
      out: the File that the link writes.
      mnemonic: the action's mnemonic.
      message: the action's progress message, with Bazel's placeholders.
      checked: list of Files that must exist before the link.
    """
    if not step.shared:
        step.shared.append(_new_shared(ctx, step, out))
    shared = step.shared[0]
    objects = [object.file for object in linked]
    files = objects + shared.library
    call = ctx.actions.args()
    call.add_all(shared.words)
    args = ctx.actions.args()
    if len(files) > _FEW:
        call.use_param_file("@%s")
        call.set_param_file_format("multiline")
        _in_file_of_clang(args)
    call.add_all(linked + step.library, map_each = _object_words)
    outputs = [out]
    words = ["-o", out]
    if shared.recorded:
        record = optimization_record(ctx, out, step.recorded)
        outputs.append(record)
        args.add(record, format = "-Wl,-plugin-opt=opt-remarks-filename=%s")
        words.append("-Wl,-plugin-opt=opt-remarks-passes=" + RECORDED_PASSES)
        if not step.in_parts:
            # Several threads would print them.
            call.add(record, format = "--record=%s")
            words.append("-Wl,-plugin-opt=-pass-remarks-analysis=" + RESOURCES_PASS)
    call.add("--", shared.clang.executable)
    if step.by_linker:
        # Only the linker gets these files: the driver would optimize bitcode again before linking it.
        args.add_all(words)
        args.add_all(objects, before_each = "-Xlinker")
        if shared.library:
            args.add("-Wl,--start-lib")
            args.add_all(shared.library, before_each = "-Xlinker")
            args.add("-Wl,--end-lib")
    else:
        args.add_all(words + objects)
        if shared.library:
            # Portable code is linked whole.
            whole = step.extension == ".spv"
            args.add_all(([] if whole else ["-Wl,--start-lib"]) + shared.library + ([] if whole else ["-Wl,--end-lib"]))
    run_offload(
        ctx,
        arguments = [call, shared.flags, args],
        group = LINK_GROUP,
        inputs = depset(objects + checked, transitive = shared.inputs),
        mnemonic = mnemonic,
        outputs = outputs,
        program = shared.program,
        progress_message = message,
        requirements = _REQUIREMENTS,
        resources = _resources,
        tools = [shared.clang],
    )

# The program is not a worker: clang requires a process with its own directory and environment.
_REQUIREMENTS = {"supports-path-mapping": "1"}

def _object_words(object):
    return ["--object=" + object.file.path, "--source=" + object.source]

# The number of linked files up to which the command line of a link fits into any limit.
_FEW = 20

def _in_file_of_clang(args):
    """Allows a parameter file for arguments of clang."""

    # The program leaves files with two @ to clang, which reads another format.
    args.use_param_file("@@%s")
    args.set_param_file_format("shell")

def _new_shared(ctx, step, out):
    """Returns what all links with a step have in common. The step keeps it for the next link."""
    toolchain = step.toolchain
    words = ["link-device"]
    if step.advice:
        words.append("--advice=" + step.advice)
    if step.without_runtime:
        words.append("--without-runtime=" + step.without_runtime)
    flags = ctx.actions.args()
    _in_file_of_clang(flags)
    add_flags(flags, step.words + step.generation + (toolchain.link_flags + step.linkopts if step.linkopts != None else []), out)
    library = [object.file for object in step.library]
    files = _files(ctx, toolchain)
    return struct(
        clang = toolchain.clang,
        flags = flags,
        inputs = [depset(library, transitive = [files]) if library else files],
        library = library,
        program = offload_program(ctx, LINK_GROUP),
        recorded = step.recorded and settings_of(ctx).optimization_records,
        words = words,
    )

def _step(*, toolchain, words, advice = "", by_linker = False, extension = "", generation = [], in_parts = False, library = [], linkopts = None, recorded = "", without_runtime = ""):
    """Returns a step.

    Args:
      toolchain: result of `device_toolchain_of`.
      words: list of strings: the target, and what the link does.
      advice: what to do about undefined symbols, for the message.
      by_linker: whether only the linker gets the objects, not clang's driver.
      extension: extension of the image, with the dot.
      generation: list of strings for `add_flags`: flags of compilations.
      in_parts: whether the link generates code in several threads.
      library: list of structs like the linked objects, of which only the needed parts are linked.
      linkopts: list of strings for `add_flags`: the flags of the Bazel target; None for links without flags of the toolchain.
      recorded: the target ID, if the link generates code and can write an optimization record.
      without_runtime: the GPU of an OpenMP link without libraries.

    Returns:
      a struct for `device_link`.
    """
    return struct(
        advice = advice,
        by_linker = by_linker,
        extension = extension,
        generation = generation,
        in_parts = in_parts,
        library = library,
        linkopts = linkopts,
        recorded = recorded,
        shared = [],
        toolchain = toolchain,
        without_runtime = without_runtime,
        words = words,
    )

# The compilations have linked the device libraries. Some releases of clang would link them again, others warn
# that the flag is unused.
_NO_LIBRARIES = ["-nogpulib", "-Wno-unused-command-line-argument"]

# Clang's driver generates code for the whole bitcode of AMD GPUs in this way.
_LTO = "-flto"

# The flag of the linker with which it generates code in several threads, one for each part of the program.
_PARTITIONS = "--lto-partitions="

# The flags of clang, and the program that makes SPIR-V with the second one or by default.
_BACKEND = "-use-spirv-backend"
_TRANSLATOR = "-no-use-spirv-backend"

_NO_TRANSLATOR = """{where}: amdgcnspirv: the device compiler makes SPIR-V with the translator {program}, which it does not find: \
install it (Debian: llvm-spirv-{release}), use a compiler that has it in its directory, or set \
arch_linkopts = {{"amdgcnspirv": ["{backend}"]}} for LLVM's backend (docs/toolchains.md)"""

def _check_translator(ctx, toolchain, linkopts):
    """Fails if portable code requires a translator that is missing."""
    program = fact(toolchain, "spirv_missing")
    chosen = [flag for flag in toolchain.link_flags + linkopts if flag in (_BACKEND, _TRANSLATOR)]
    if program and (chosen[-1] if chosen else _TRANSLATOR) == _TRANSLATOR:
        fail(_NO_TRANSLATOR.format(backend = _BACKEND, program = program, release = toolchain.release, where = name_of(ctx.label)))

def hip_link_step(ctx, target, *, advice, generates, copts, linkopts, device_only = False, library = []):
    """Returns the link of HIP code for an architecture.

    Args:
      ctx: the rule's context.
      target: struct returned by `target_ids.complete`.
      advice: what to do about undefined symbols.
      generates: whether the link generates code.
      copts: compiler flags, some of which apply if the link generates code.
      linkopts: results of `device_linkopts_of` and `arch_linkopts_of`.
      device_only: whether there is no host code, as with clang's `--offload-device-only`.
      library: list of structs with bitcode, of which only the needed parts are linked.

    Returns:
      a step whose output is a code object, or SPIR-V for portable code.
    """
    toolchain = device_toolchain_of(ctx, LINK_GROUP)
    portable = target.portable
    if portable:
        _check_translator(ctx, toolchain, linkopts)
        words = ["--target=spirv64-amd-amdhsa"]
    else:
        words = ["--target=amdgcn-amd-amdhsa", "-mcpu=" + target.target_id]
    words.extend(_NO_LIBRARIES)
    by_linker = generates and not portable
    of_driver = fact(toolchain, "link_flags", target).split(" ") if by_linker else []
    if by_linker:
        words.append(_LTO)
        if device_only and INTERNALIZE not in of_driver:
            # Nothing calls HIP's functions from outside the link.
            words.append("-Wl," + INTERNALIZE)
        words.extend(["-Wl," + flag for flag in of_driver if flag])
    return _step(
        advice = advice,
        by_linker = by_linker,
        extension = ".spv" if portable else ".co",
        generation = generation_flags(ctx, toolchain, copts, target) if generates or portable else [],
        in_parts = any([flag.startswith(_PARTITIONS) for flag in of_driver]),
        library = library,
        linkopts = linkopts,
        recorded = target.target_id if by_linker else "",
        toolchain = toolchain,
        words = words,
    )

# Without these, the link would again unroll loops that the compilations have already unrolled.
_UNROLL_ONCE = [word for option in ["-unroll-max-count=1", "-unroll-full-max-count=1"] for word in ["-Xlinker", "-plugin-opt=" + option]]

def ptx_link_step(ctx, target, *, advice, cuda, copts, linkopts):
    """Returns the link of CUDA code for a processor.

    Args:
      ctx: the rule's context.
      target: struct returned by `target_ids.complete`.
      advice: what to do about undefined symbols.
      cuda: whether the compilations use CUDA, whose version decides about the version of PTX.
      copts: compiler flags.
      linkopts: results of `device_linkopts_of` and `arch_linkopts_of`.

    Returns:
      a step whose output is PTX.
    """
    toolchain = device_toolchain_of(ctx, LINK_GROUP)
    check_links_ptx(ctx, toolchain)
    generation = generation_flags(ctx, toolchain, copts, target)
    feature = ptx_feature(target.target_id)
    return _step(
        advice = advice,
        by_linker = True,
        generation = generation,
        linkopts = linkopts,
        toolchain = toolchain,
        words = ["--target=nvptx64-nvidia-cuda", "-march=" + target.target_id] +
                (["--cuda-feature=" + feature] if feature and not cuda else []) +
                [_LTO, "-Wl,--lto-emit-asm", "-Wno-unused-command-line-argument"] +
                ([] if any(["-unroll-" in flag for flag in generation]) else _UNROLL_ONCE),
    )

def openmp_link_step(ctx, target, *, advice, generates, triple, copts, linkopts):
    """Returns the link of OpenMP code for a device.

    Args:
      ctx: the rule's context.
      target: struct returned by `target_ids.complete`.
      advice: what to do about undefined symbols.
      generates: whether the link generates code.
      triple: the triple of the target, as clang's flags have it.
      copts: compiler flags.
      linkopts: results of `device_linkopts_of` and `arch_linkopts_of`.

    Returns:
      a step whose output is an image: a code object, bitcode for NVIDIA GPUs, or a shared library for a CPU.
    """
    toolchain = device_toolchain_of(ctx, LINK_GROUP)
    amd = target_ids.is_amdgpu(target.triple)
    words = ["--target=" + triple]
    if not target.target_id:
        # The program is linked with the libraries that the image uses.
        words.extend(["-fuse-ld=lld", "-nostdlib", "-shared", "-Wl,-Bsymbolic"])
    elif amd:
        words.extend(["-mcpu=" + target.target_id, "-nogpulib"] + ([_LTO] if generates else []))
    else:
        check_links_ptx(ctx, toolchain)
        words.append("-march=" + target.target_id)
        if ptx_feature(target.target_id):
            words.append("--cuda-feature=" + ptx_feature(target.target_id))
        words.extend([_LTO, "-Wl,--lto-emit-llvm"])
    return _step(
        advice = advice,
        by_linker = bool(target.target_id),
        generation = generation_flags(ctx, toolchain, copts, target) if target.target_id else [],
        linkopts = linkopts,
        recorded = target.target_id if amd and generates else "",
        toolchain = toolchain,
        without_runtime = target.target_id if amd and not _has_library(toolchain.link_flags + linkopts) else "",
        words = words + ["-Wno-unused-command-line-argument"],
    )

def _has_library(flags):
    """Reports whether flags of a link can name LLVM's device runtime, or allow undefined symbols."""
    for flag in flags:
        if flag.startswith(("-l", "-Wl,", "-Xlinker", "@")) or flag.endswith((".a", ".bc", ".o")):
            return True
    return False

def merge_objects_step(ctx, triple):
    """Returns the link of host objects to one.

    Args:
      ctx: the rule's context.
      triple: the triple of the host.

    Returns:
      a step whose output is an object.
    """
    return _step(
        toolchain = device_toolchain_of(ctx, LINK_GROUP),
        words = ["--target=" + triple, "-fuse-ld=lld", "-nostdlib", "-r"],
    )

def link_program(ctx, *, objects, out, host, copts, linkopts):
    """Registers the link of all device code in the objects of a program. The program finds the targets and their inputs.

    Args:
      ctx: the rule's context; the rule has the exec group for links, `DEVICE_ATTRS` and `LINKER_INPUTS_ATTRS`.
      objects: list of Files: objects and archives.
      out: the File that the link writes: an object that registers the images.
      host: result of `host_triple`.
      copts: compiler flags.
      linkopts: results of `device_linkopts_of` and `arch_linkopts_of`, for all targets.
    """
    toolchain = device_toolchain_of(ctx, LINK_GROUP)
    call = offload_arguments(ctx, "link")
    call.add(toolchain.clang.executable, format = "--clang=%s")
    call.add(host, format = "--triple=%s")
    call.add(out, format = "--output=%s")
    call.add("--advice=add the library that defines it to deps, or the object to srcs; for symbols that begin with __kmpc_, add LLVM's device runtime to device_linkopts")

    # Here, the objects of libraries are in archives, and no other object refers to their members.
    call.add("--whole-archive")
    add_flags(call, generation_flags(ctx, toolchain, copts) + toolchain.link_flags + linkopts, out, format_each = "--device-arg=%s")
    call.add_all(objects)
    run_offload(
        ctx,
        arguments = [call],
        group = LINK_GROUP,
        inputs = depset(objects, transitive = [_files(ctx, toolchain)]),
        mnemonic = "OffloadLink",
        outputs = [out],
        progress_message = "Linking device code %{label}",
        requirements = _REQUIREMENTS,
        resources = _resources_of_program,
        tools = [toolchain.clang],
    )

def _resources_of_program(_os, _inputs):
    # The links of all targets run in parallel.
    return {"cpu": 2, "memory": 1000}

def _files(ctx, toolchain):
    """Returns the files of the compiler, and those that flags refer to."""
    files = getattr(ctx.files, "additional_linker_inputs", [])
    return depset(files, transitive = [toolchain.link_files]) if files else toolchain.link_files
