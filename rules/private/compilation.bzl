"""Compilations with clang. Everything that reaches clang's command line in a compilation is in this file.

A rule calls `compiler_of` once for a target, and `compile` for each action, with a step: a struct that one of the functions
`hip_device_step`, `hip_host_step`, `cuda_step`, `bitcode_step` and so on returns. The flags of all compilations are in this
order: language, target and flags of the toolchain, ROCm, what the step does, headers, flags of the target, bitcode, the
output, the source and its ID. Sources that are compiled in the same way have the same step: what precedes the output is
computed once for a step, and what does not depend on the step, once for a target.
"""

load(":architectures.bzl", "ARCH_COPTS_ATTRS", "DEVICE_LINKOPTS_ATTRS")
load(":cc_flags.bzl", "device_flags", "headers_files", "host_environment", "host_flags", "without_inclusions")
load(":compiler_facts.bzl", "describe_facts", "fact")
load(":device_link.bzl", "AMDGPU_FEATURES", "RECORDED_PASSES", "RESOURCES_PASS", "flags_of_device", "optimization_record")
load(":flags.bzl", "COMPILER_INPUTS_ATTRS", "LINKER_INPUTS_ATTRS", "check_counters", "check_rdc", "flag_mapping", "path_of")
load(":headers.bzl", "HEADER_DEPS_ATTRS")
load(":linking.bzl", "host_triple", "linux_triple")
load(":lto.bzl", "FULL_LTO", "NO_LTO", "OBJECTS")
load(":messages.bzl", "name_of")
load(":processors.bzl", "INSTRUCTION_SETS")
load(":program.bzl", "offload_program")
load(":ptx.bzl", "ptx_feature")
load(":settings.bzl", "setting_flag", "settings_of")
load(":sources.bzl", "COMPILE_INPUT", "compilation_id")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "COMPILE_GROUP", "device_toolchain_of")

# Attributes of rules that only compile device code.
DEVICE_CODE_ATTRS = ARCH_COPTS_ATTRS | COMPILER_INPUTS_ATTRS | DEVICE_LINKOPTS_ATTRS | HEADER_DEPS_ATTRS | LINKER_INPUTS_ATTRS | {
    "copts": attr.string_list(
        doc = "Additional compiler flags.",
    ),
    "defines": attr.string_list(
        doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`, unlike in `cc_library` for this target only, because nothing includes its headers.",
    ),
    "hdrs": attr.label_list(
        doc = "Headers that the sources include, by their path relative to the workspace, unlike in `cc_library` for this target only, because it is not a library of C++.",
        allow_files = True,
        flags = COMPILE_INPUT,
    ),
    "includes": attr.string_list(
        doc = "Directories to add to the include path, unlike in `cc_library` for this target only, because nothing includes its headers. They are relative to the package; `.` is the package itself.",
    ),
}

def _resources(_os, _inputs):
    return {"cpu": 1, "memory": 600}

def compiler_of(ctx, *, headers = None, cc = None):
    """Returns what the compilations of a target have in common.

    Args:
      ctx: the rule's context; the rule has `CLANG_GROUPS`, `DEVICE_ATTRS` and `HOST_ATTRS`.
      headers: result of `headers_of` or `library_headers`; None if no source includes headers.
      cc: result of `cc_configuration`; None without a C++ toolchain.

    Returns:
      a struct for `compile` and the functions that return steps.
    """
    clang = device_toolchain_of(ctx, COMPILE_GROUP)
    check_rdc(ctx, "--copt", ctx.fragments.cpp.copts)
    triple = linux_triple(ctx)
    of_toolchain = clang.compile_flags + clang.mode_flags[ctx.var["COMPILATION_MODE"]]
    of_setting = settings_of(ctx).device_copts
    if settings_of(ctx).explain_flags:
        # buildifier: disable=print
        print("{}: the device compiler is {}".format(name_of(ctx.label), describe_facts(clang)))
    check_counters(ctx, "flags of the device toolchain", of_toolchain)
    if of_setting:
        check_counters(ctx, setting_flag("device_copts"), of_setting)
    return struct(
        cc = cc,
        clang = clang,
        device_flags = of_toolchain,
        headers = headers,
        host_flags = lambda language: clang.host_compile_flags + host_flags(ctx, cc, language),
        language_flags = lambda language, parses_host: device_flags(ctx, cc, language, parses_host = parses_host),
        once = {},
        program = offload_program(ctx, COMPILE_GROUP),
        rocm_flags = _rocm_flags(clang),
        setting_flags = of_setting,
        target = ["--target=" + triple] if triple else [],
        # Without headers, there is nothing to list.
        tracks_headers = bool(headers and headers.headers) and settings_of(ctx).track_headers,
    )

def _once(compiler, key, compute):
    """Returns what a function returns. It is called once for each target."""
    if key not in compiler.once:
        compiler.once[key] = compute()
    return compiler.once[key]

def compile(ctx, compiler, step, *, src, out, mnemonic, message, id = ""):
    """Registers a compilation.

    The program runs clang. It lists the headers that clang does not read: Bazel does not repeat the action if only they
    change. The action's command line names all headers, so an additional or deleted header repeats it.

    Args:
      ctx: the rule's context.
      compiler: result of `compiler_of`.
      step: result of a function in this file.
      src: the File that clang compiles.
      out: the File that the action writes.
      mnemonic: the action's mnemonic.
      message: the action's progress message, with Bazel's placeholders.
      id: result of `compilation_id` for the source, if the rule already has it.
    """
    if not step.shared:
        step.shared.append(_new_shared(ctx, compiler, step, out))
    shared = step.shared[0]
    outputs = [out]
    arguments = shared.arguments
    unused = None
    own = ctx.actions.args()
    if not arguments:
        program = ctx.actions.args()
        if shared.lists_headers:
            unused = ctx.actions.declare_file(out.basename + ".unused", sibling = out)
            outputs.append(unused)
            program.add(unused, format = "--unused=%s")
        if step.stdin:
            program.add(src, format = "--stdin=%s")
        if step.written == _BY_PROGRAM:
            program.add(out, format = "--source=%s")
        elif step.written == _NOTHING:
            program.add(out, format = "--done=%s")
        if step.entries:
            program.add(out, format = "--isolate=%s")
            program.add(step.entries.suffix or id or compilation_id(ctx, src), format = "--suffix=%s")
        if shared.recorded:
            record = optimization_record(ctx, out, step.recorded)
            outputs.append(record)
            program.add(record, format = "--record=%s")
            own.add_all(["-fsave-optimization-record=yaml", "-foptimization-record-passes=" + RECORDED_PASSES, "-Rpass-analysis=" + RESOURCES_PASS])
            own.add(record, format = "-foptimization-record-file=%s")
        program.add_all(shared.words)
        arguments = shared.before + [program, shared.flags]
    own.add_all(
        (["-o", out] if step.written == _BY_CLANG else []) + step.last + ["-" if step.stdin else src] +
        (["-cuid=" + (id or compilation_id(ctx, src))] if step.has_id else []),
    )
    ctx.actions.run(
        arguments = arguments + [own],
        env = step.env,
        exec_group = COMPILE_GROUP,
        executable = compiler.program,
        execution_requirements = shared.requirements,
        inputs = depset([src], transitive = shared.inputs),
        mnemonic = mnemonic,
        outputs = outputs,
        progress_message = message,
        resource_set = _resources,
        tools = [compiler.clang.clang],
        unused_inputs_list = unused,
    )

def _new_shared(ctx, compiler, step, out):
    """Returns what all compilations with a step have in common. The step keeps it for the next compilation."""
    headers = compiler.headers if step.reads_headers else None
    lists_headers = bool(headers) and compiler.tracks_headers and step.maps_paths
    before = ["compile"] + (_once(compiler, "headers", lambda: _listed_headers(ctx, headers)) if lists_headers else [])
    words = step.program + (["--reference=" + step.entries.reference] if step.entries and step.entries.reference else [])
    words = words + ["--", compiler.clang.clang.executable]
    flags = _flags(ctx, compiler, step, headers, out)
    recorded = step.recorded and settings_of(ctx).optimization_records
    names_outputs = lists_headers or recorded or step.stdin or step.entries or step.written != _BY_CLANG
    call = None
    if not names_outputs:
        # Bazel keeps an object for each `Args` of an action, and for the words between them.
        call = ctx.actions.args()
        call.add_all(before + words)
    return struct(
        arguments = [call, flags] if call else [],
        before = before,
        flags = flags,
        inputs = [_inputs(ctx, compiler, step, headers)],
        lists_headers = lists_headers,
        recorded = recorded,
        requirements = _MAPS_PATHS if step.maps_paths else {},
        words = words,
    )

_MAPS_PATHS = {"supports-path-mapping": "1"}

def _listed_headers(ctx, headers):
    names = ctx.actions.args()
    names.use_param_file("--headers=%s", use_always = True)
    names.set_param_file_format("multiline")
    names.add_all(headers.headers, expand_directories = False)
    return [names]

def _flags(ctx, compiler, step, headers, out):
    """Returns an `Args` with the flags of a step."""
    mapped = _once(compiler, "mapping", lambda: flag_mapping(out))
    args = ctx.actions.args()
    args.use_param_file("@%s")
    args.set_param_file_format("shell")
    flags = step.language + step.first
    if step.rocm != None:
        flags = flags + compiler.rocm_flags
    flags = flags + step.words
    own = step.flags + (compiler.setting_flags if step.for_device else [])
    if headers:
        args.add_all(flags, allow_closure = True, map_each = mapped)
        args.add_all(headers.defines, allow_closure = True, format_each = "-D%s", map_each = mapped)
        args.add_all(headers.quote_includes, allow_closure = True, before_each = "-iquote", map_each = mapped)
        if headers.includes:
            args.add_all(headers.includes, allow_closure = True, before_each = "-I", map_each = mapped)
        if headers.system_includes:
            args.add_all(headers.system_includes, allow_closure = True, before_each = "-isystem", map_each = mapped)
        if own:
            args.add_all(own, allow_closure = True, map_each = mapped)
    else:
        args.add_all(flags + own, allow_closure = True, map_each = mapped)
    if step.bitcode:
        args.add_all(step.bitcode, map_each = step.links_bitcode)
    return args

def _inputs(ctx, compiler, step, headers):
    """Returns the inputs of a step. Steps without files of their own have the same depset."""
    libraries = _device_libraries(compiler.clang, step.rocm.target_id) if step.rocm != None else []
    own = step.bitcode + step.inputs + libraries
    if own:
        return depset(own, transitive = [_common_inputs(ctx, compiler, step, headers)])
    return _once(compiler, (step.uses_cc, step.rocm != None, bool(headers)), lambda: _common_inputs(ctx, compiler, step, headers))

def _common_inputs(ctx, compiler, step, headers):
    files = [compiler.clang.compile_files]
    if step.uses_cc:
        files.append(headers_files(compiler.cc))
    if headers:
        files.append(headers.files)
    elif step.uses_cc:
        files.append(depset(ctx.files.additional_compiler_inputs))
    if step.rocm != None:
        files.append(_rocm_files(compiler.clang))
    return depset(transitive = files)

# What writes the output of a step.
_BY_CLANG = "clang"
_BY_PROGRAM = "program"
_NOTHING = "nothing"

def _step(
        *,
        language,
        first,
        words,
        flags = [],
        bitcode = [],
        entries = None,
        env = {},
        for_device = False,
        has_id = False,
        inputs = [],
        last = [],
        links_bitcode = None,
        maps_paths = True,
        program = [],
        reads_headers = True,
        recorded = "",
        rocm = None,
        stdin = False,
        uses_cc = True,
        written = _BY_CLANG):
    """Returns a step.

    Args:
      language: list of flags for the language.
      first: list of strings for `add_flags`: the target and the flags of the toolchain.
      words: list of strings, Files and results of `path_of`: what the step does.
      flags: list of strings for `add_flags`: the flags of the Bazel target.
      bitcode: list of Files that are linked into the code.
      entries: result of `own_entries` if offload entries in the output belong to the target, else None.
      env: the action's environment.
      for_device: whether the flags of the setting `device_copts` apply.
      has_id: whether symbols must differ between sources.
      inputs: list of Files in words.
      last: list of strings before the source.
      links_bitcode: the function that returns the flags for a File in bitcode.
      maps_paths: whether the output is the same if Bazel maps paths.
      program: list of arguments of the program.
      reads_headers: whether the source can include headers.
      recorded: the target ID of the code, if the compilation can write an optimization record.
      rocm: a struct with target_id, for device libraries, if the step uses HIP or the device libraries; else None.
      stdin: whether clang reads the source from standard input.
      uses_cc: whether flags or headers of the C++ toolchain apply.
      written: what writes the output.

    Returns:
      a struct for `compile`.
    """
    return struct(
        bitcode = bitcode,
        entries = entries,
        env = env,
        first = first,
        flags = flags,
        for_device = for_device,
        has_id = has_id,
        inputs = inputs,
        language = language,
        last = last,
        links_bitcode = links_bitcode,
        maps_paths = maps_paths,
        program = program,
        reads_headers = reads_headers,
        recorded = recorded,
        rocm = rocm,
        shared = [],
        stdin = stdin,
        uses_cc = uses_cc,
        words = words,
        written = written,
    )

def own_entries(suffix, reference = ""):
    """Returns what assigns the offload entries in an object to a target, so that no other target registers them.

    Args:
      suffix: suffix of the entries, or of the fat binary that host code refers to; empty for the compilation ID of the source.
      reference: symbol that objects with entries refer to; empty for none.

    Returns:
      a struct for the functions that return steps for host code.
    """
    return struct(reference = reference, suffix = suffix)

# HIP.

def hip_device_step(compiler, target, *, rdc, copts, bitcode = [], lto = ""):
    """Returns a compilation of HIP for an architecture.

    Args:
      compiler: result of `compiler_of`.
      target: struct returned by `target_ids.complete`.
      rdc: whether device code is relocatable.
      copts: list of strings for `add_flags`.
      bitcode: list of Files of which the code uses functions.
      lto: `NO_LTO`, `FULL_LTO` or `OBJECTS`, see `lto_of`; empty if the code is not linked.

    Returns:
      a step whose output is an object, for code that `is_bitcode` bitcode.
    """
    words = ["--offload-device-only", "--no-gpu-bundle-output", "--offload-arch=" + target.target_id]
    if rdc:
        words.append("-fgpu-rdc")
    portable = target.portable
    if portable or (rdc and lto not in (FULL_LTO, OBJECTS)):
        words.extend(["-emit-llvm", "-c"] + (["-fno-offload-lto"] if lto == NO_LTO and not portable else []))
    else:
        # The driver links the code that it assembles. To keep the link in a separate
        # action, these flags stop the driver earlier and make the compiler write an object or bitcode.
        words.extend(["-S", "-Xclang"] + (["-emit-llvm-bc", "-foffload-lto=full"] if lto == FULL_LTO else ["-emit-obj"]) + (["-fno-offload-lto"] if lto == OBJECTS else []))
    return _step(
        bitcode = bitcode,
        first = compiler.target + compiler.device_flags,
        flags = compiler.language_flags("c++", True) + copts,
        for_device = True,
        has_id = True,
        language = ["-x", "hip"],
        links_bitcode = _used_functions,
        # Portable code contains the compiler's command line, from which the runtime takes the optimization level.
        maps_paths = not portable,
        recorded = "" if portable else target.target_id,
        rocm = target,
        words = words,
    )

def is_bitcode(target, *, rdc, lto):
    """Reports whether the output of a `hip_device_step` is bitcode, from which the link generates code.

    Args:
      target: struct returned by `target_ids.complete`.
      rdc: whether device code is relocatable.
      lto: `NO_LTO`, `FULL_LTO` or `OBJECTS`, see `lto_of`.

    Returns:
      a bool.
    """
    return target.portable or lto == FULL_LTO or (rdc and lto != OBJECTS)

def hip_host_step(compiler, *, rdc, copts, entries):
    """Returns a compilation of HIP for the host. It does not depend on device code.

    Args:
      compiler: result of `compiler_of`.
      rdc: whether device code is relocatable.
      copts: list of strings for `add_flags`.
      entries: result of `own_entries`.

    Returns:
      a step whose output is an object: with rdc, one with offload entries; without rdc, one that refers to a fat binary.
    """

    # With relocatable device code, host code lists its kernels in offload
    # entries. Otherwise, it registers a fat binary, which is in a separate
    # object because this action does not depend on it.
    return _step(
        entries = entries,
        env = host_environment(compiler.cc),
        first = compiler.target + compiler.host_flags("c++"),
        flags = copts,
        has_id = True,
        language = ["-x", "hip"],
        rocm = struct(target_id = None),
        words = ["--offload-host-only"] + (["--offload-new-driver", "-fgpu-rdc"] if rdc else []) + ["-fPIC", "-c"],
    )

def c_step(compiler, *, copts):
    """Returns a compilation of C for the host, in a target whose other sources are HIP.

    Args:
      compiler: result of `compiler_of`.
      copts: list of strings for `add_flags`.

    Returns:
      a step whose output is an object.
    """
    return _step(
        env = host_environment(compiler.cc, "c"),
        first = compiler.target + compiler.host_flags("c"),
        flags = [flag for flag in copts if not flag.startswith(("-std=c++", "-std=gnu++"))],
        language = ["-x", "c"],
        words = ["-fPIC", "-c"],
    )

def parse_step(compiler, *, language, copts):
    """Returns a compilation of a header by itself, for the host. Its output is an empty file.

    Args:
      compiler: result of `compiler_of`.
      language: list of clang flags for the language.
      copts: list of strings for `add_flags`.

    Returns:
      a step.
    """
    return _step(
        env = host_environment(compiler.cc),
        first = compiler.target + compiler.host_flags("c++"),
        flags = copts,
        language = language,
        rocm = struct(target_id = None),
        words = ["-fsyntax-only", "-Wno-pragma-once-outside-header"],
        written = _NOTHING,
    )

# CUDA.

def has_cuda(copts):
    """Reports whether flags name the directory of CUDA.

    Args:
      copts: list of strings.

    Returns:
      a bool.
    """
    return any([flag.startswith("--cuda-path=") for flag in copts])

def cuda_step(compiler, target, *, rdc, copts):
    """Returns a compilation of CUDA for a processor.

    Args:
      compiler: result of `compiler_of`.
      target: struct returned by `target_ids.complete`.
      rdc: whether device code is relocatable.
      copts: list of strings for `add_flags`.

    Returns:
      a step whose output is PTX, with rdc bitcode.
    """
    words = ["--cuda-device-only"] + (["-fgpu-rdc", "-emit-llvm", "-c"] if rdc else ["-S"])
    words.append("--offload-arch=" + target.target_id)
    feature = ptx_feature(target.target_id)
    if feature and not has_cuda(copts):
        words.append("--cuda-feature=" + feature)
    return _step(
        first = compiler.target + compiler.device_flags + ([] if has_cuda(copts) else ["-nocudainc", "-nocudalib"]),
        flags = compiler.language_flags("c++", True) + copts,
        for_device = True,
        has_id = True,
        language = ["-x", "cuda"],
        words = words,
    )

# Bitcode.

# The languages of sources, as values of clang's -x.
BITCODE_LANGUAGES = {"c": "c", "cl": "cl", "cu": "hip", "hip": "hip", "ll": "ir"}

def bitcode_step(compiler, target, *, language, copts):
    """Returns a compilation of device functions.

    Args:
      compiler: result of `compiler_of`.
      target: struct returned by `target_ids.complete`.
      language: a value of `BITCODE_LANGUAGES`.
      copts: list of strings for `add_flags`.

    Returns:
      a step whose output is bitcode.
    """
    if language == "hip":
        return hip_device_step(compiler, target, copts = copts, rdc = True)
    ir = language == "ir"
    c = language == "c"
    return _step(
        first = compiler.device_flags + _amd_flags(target),
        flags = [] if ir else flags_of_device((compiler.language_flags("c", False) if c else []) + copts, target),
        for_device = True,
        language = ["-x", language],
        # Portable code contains the compiler's command line.
        maps_paths = target_ids.is_amdgpu(target.triple),
        reads_headers = not ir,
        rocm = target,
        uses_cc = c,
        words = (["-Wno-unused-command-line-argument", "-Xclang", "-disable-llvm-passes"] if ir else []) + ["-emit-llvm", "-c"],
    )

# The languages of sources of code objects other than HIP, as values of clang's -x.
CODE_LANGUAGES = {"S": "assembler-with-cpp", "bc": "ir", "cl": "cl", "ll": "ir", "s": "assembler"}

def is_assembly(language):
    """Reports whether a language has no form as bitcode.

    Args:
      language: a value of `CODE_LANGUAGES`.

    Returns:
      a bool.
    """
    return language.startswith("assembler")

def code_step(compiler, target, *, language, copts, bitcode):
    """Returns a compilation of assembly, OpenCL C or LLVM IR to an object.

    Args:
      compiler: result of `compiler_of`.
      target: struct returned by `target_ids.complete`: an AMD GPU.
      language: a value of `CODE_LANGUAGES`.
      copts: list of strings for `add_flags`.
      bitcode: list of Files of which the code uses functions.

    Returns:
      a step whose output is an object.
    """
    assembly = is_assembly(language)
    return _step(
        bitcode = [] if assembly else bitcode,
        first = compiler.device_flags + _amd_flags(target),
        flags = [] if language == "ir" else flags_of_device(copts, target),
        for_device = True,
        language = ["-x", language],
        links_bitcode = _used_functions,
        reads_headers = language in ["assembler-with-cpp", "cl"],
        recorded = "" if assembly else target.target_id,
        rocm = None if assembly else target,
        uses_cc = False,
        # Not all flags for HIP have a meaning for these languages.
        words = ["-Wno-unused-command-line-argument", "-c"],
    )

def merge_step(target, files):
    """Returns the merge of bitcode files into one. It keeps all functions; compilations that link the file drop those that are not called.

    Args:
      target: struct returned by `target_ids.complete`, None for any AMD GPU.
      files: list of Files, which are merged with the source of the step.

    Returns:
      a step.
    """
    return _step(
        bitcode = files,
        first = _amd_flags(target) if target else ["--target=amdgcn-amd-amdhsa"],
        language = [],
        last = ["-x", "ir"],
        links_bitcode = _all_functions,
        reads_headers = False,
        uses_cc = False,
        words = ["-nogpulib", "-Wno-unused-command-line-argument", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"],
    )

def _amd_flags(target):
    """Returns the flags of a compilation of C, OpenCL C or LLVM IR for an AMD GPU."""
    if target_ids.is_amdgpu(target.triple):
        return ["--target=amdgcn-amd-amdhsa", "-mcpu=" + target.target_id]
    return ["--target=spirv64-amd-amdhsa"]

def _used_functions(file):
    return ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", file.path]

def _all_functions(file):
    return ["-Xclang", "-mlink-bitcode-file", "-Xclang", file.path]

# OpenMP.
#
# Clang includes the device and inode numbers of the file with a target region in
# the name of its kernel. They differ between machines, so that a host compilation
# and a device compilation on different machines would use different names. Only if
# there is no such file, as for standard input, clang uses just the function and line.
# So each source is written once with all its headers (-frewrite-includes), and all
# compilations read the result from standard input. The program, which writes it, changes the text:
# - It adds empty lines at the start, a different number for each source, so that
#   static functions with the same name have different line numbers.
# - It restores conditions and inclusions that clang evaluated for the host.
# - Line markers name files like labels, with `//` at the start. The names are for messages; no such file exists.
#
# For GPUs, clang's driver adds its own headers before those of the system. They declare variants of mathematical
# functions, among others. They are part of the text, too; conditions guard their device code.

def openmp_language(src):
    """Returns the language of a source: `c` or `c++`.

    Args:
      src: a File.

    Returns:
      a string.
    """
    return "c" if src.extension == "c" else "c++"

def _openmp_words(src):
    return ["-fopenmp", "-fPIC", "-nogpulib", "-iquote", path_of(src, _folder_of)]

def _folder_of(src):
    return src.dirname or "."

def _name_words(src):
    """Returns the name in debug information of a source that the compiler reads from standard input."""
    return ["-Xclang", "-main-file-name", "-Xclang", path_of(src, _like_label)]

def _like_label(src):
    return "//" + src.path

def openmp_source_step(compiler, src, *, empty_lines, gpu, copts):
    """Returns the step that writes a source with its headers.

    Args:
      compiler: result of `compiler_of`.
      src: the source.
      empty_lines: number of empty lines at the start.
      gpu: whether the source is compiled for a GPU.
      copts: list of strings for `add_flags`.

    Returns:
      a step.
    """
    language = openmp_language(src)
    return _step(
        env = host_environment(compiler.cc, language),
        first = compiler.target + compiler.host_flags(language),
        flags = copts,
        language = ["-x", language],
        program = ["--empty-lines={}".format(empty_lines)] + (["--device-headers"] if gpu else []),
        words = _openmp_words(src) + ["-E", "-frewrite-includes"],
        written = _BY_PROGRAM,
    )

def openmp_host_step(compiler, src, *, triples, copts):
    """Returns the compilation of the result of `openmp_source_step` for the host.

    Args:
      compiler: result of `compiler_of`.
      src: the source, before headers are written into it.
      triples: list of the triples of the devices.
      copts: list of strings for `add_flags`.

    Returns:
      a step whose output is bitcode, which compilations for devices read.
    """
    language = openmp_language(src)

    # The passes run only once, when the object is generated. Otherwise, a sanitizer would instrument the code twice.
    return _step(
        env = host_environment(compiler.cc, language),
        first = compiler.target + without_inclusions(compiler.host_flags(language)),
        flags = without_inclusions(copts),
        language = ["-x", language],
        stdin = True,
        words = _openmp_words(src) + _name_words(src) + ["-fopenmp-targets=" + ",".join(triples), "--offload-host-only", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-c"],
    )

def openmp_object_step(compiler, src, *, copts, entries):
    """Returns the compilation of the output of `openmp_host_step` to an object.

    Args:
      compiler: result of `compiler_of`.
      src: the source.
      copts: list of strings for `add_flags`.
      entries: result of `own_entries`.

    Returns:
      a step.
    """
    language = openmp_language(src)
    return _step(
        entries = entries,
        env = host_environment(compiler.cc, language),
        first = compiler.target + without_inclusions(compiler.host_flags(language) + copts),
        language = [],
        last = [],
        reads_headers = False,
        words = ["-fPIC", "-x", "ir", "-c"],
    )

def openmp_device_step(ctx, compiler, src, target, *, ir, copts, device_copts, bitcode, lto):
    """Returns the compilation of the result of `openmp_source_step` for a device.

    Args:
      ctx: the rule's context.
      compiler: result of `compiler_of`.
      src: the source, before headers are written into it.
      target: struct returned by `target_ids.complete`.
      ir: the output of `openmp_host_step`.
      copts: list of strings for `add_flags`: those that also apply to the host.
      device_copts: list of strings for `add_flags`: those for devices only.
      bitcode: list of Files of which the code uses functions.
      lto: `NO_LTO`, `FULL_LTO` or `OBJECTS`, see `lto_of`.

    Returns:
      a step whose output is bitcode for a GPU, an object for a CPU.
    """
    language = openmp_language(src)
    gpu = bool(target.target_id)
    host = host_triple(ctx)
    if gpu:
        flags = compiler.language_flags(language, True)
    else:
        flags = device_flags(ctx, compiler.cc, language, for_cpu = host.split("-")[0] == target.triple.split("-")[0])
    flags = without_inclusions(flags + copts) + device_copts
    return _step(
        bitcode = bitcode,
        first = compiler.device_flags,
        flags = _flags_of_openmp(compiler.clang, flags, target) if gpu else flags,
        for_device = True,
        inputs = [ir],
        language = ["-x", language],
        links_bitcode = _used_functions,
        program = ["--device-functions"] if gpu else [],
        stdin = True,
        words = _openmp_words(src) + _name_words(src) + _openmp_target(target, host, compiler.clang) + [
            "-Xclang",
            "-fopenmp-is-target-device",
            "-Xclang",
            "-aux-triple",
            "-Xclang",
            host,
            "-Xclang",
            "-fopenmp-host-ir-file-path",
            "-Xclang",
            ir,
        ] + _openmp_output(target, lto) + ["-c"],
    )

def _openmp_output(target, lto):
    if not is_openmp_bitcode(target, lto):
        return []
    return ["-flto=full"] if lto == FULL_LTO and not is_nvidia(target) else ["-emit-llvm"]

def is_openmp_bitcode(target, lto):
    """Reports whether the output of an `openmp_device_step` is bitcode, from which the link generates code.

    Args:
      target: struct returned by `target_ids.complete`.
      lto: `NO_LTO`, `FULL_LTO` or `OBJECTS`, see `lto_of`.

    Returns:
      a bool.
    """
    return bool(target.target_id) and (lto != OBJECTS or is_nvidia(target))

def openmp_triple(target):
    """Returns the triple of an OpenMP device, as clang's flags have it.

    Args:
      target: struct returned by `target_ids.complete`.

    Returns:
      a string.
    """
    triple = target.triple.removesuffix("-")
    return triple.removesuffix("-unknown") if is_nvidia(target) else triple

def is_nvidia(target):
    """Reports whether a target is an NVIDIA GPU.

    Args:
      target: struct returned by `target_ids.complete`.

    Returns:
      a bool.
    """
    return target.triple.startswith("nvptx64-")

# If the triple of an AMD GPU has its instruction set, the settings of a target ID are flags of the module, which only these
# flags of the compiler set.
_SETTING_FLAGS = {"+": "-m", "-": "-mno-"}

def _openmp_target(target, host, toolchain):
    """Returns the flags for the target of a device compilation.

    The driver cannot compile only for a device: it would first compile for the
    host, from the same standard input. So these flags make the driver compile for
    the host, where it finds the system's headers, and cc1 for the device.
    """

    # Flags that the driver adds for all devices, and those for GPUs that differ from the host.
    words = ["-fvisibility=protected"]
    if not target.target_id:
        return words + ["--target=" + openmp_triple(target)]
    words.extend(["-fno-math-errno", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "--target=" + host])
    parts = target.target_id.split(":")
    triple = openmp_triple(target)
    features = [feature[-1] + feature[:-1] for feature in parts[1:]]
    if target_ids.is_amdgpu(target.triple) and fact(toolchain, "instruction_sets", target) == "yes":
        words.extend([feature for setting in features for feature in ["-Xclang", _SETTING_FLAGS[setting[0]] + setting[1:]]])
        features = []
        if parts[0] in INSTRUCTION_SETS:
            triple = "amdgpu{}-{}".format(INSTRUCTION_SETS[parts[0]], triple.partition("-")[2])
    if is_nvidia(target):
        # As with -fopenmp-target-jit, the link writes bitcode, and the runtime generates code from it.
        words.extend(["-flto", "-fno-threadsafe-statics", "-mllvm", "-enable-memcpyopt-without-libcalls", "-Xclang", "-fcuda-is-device", "-Xclang", "-mframe-pointer=all"])
        if ptx_feature(parts[0]):
            features.append(ptx_feature(parts[0]))
    for flag, value in [
        ("-triple", triple),
        ("-target-cpu", parts[0]),
        ("-tune-cpu", parts[0]),
    ] + [("-target-feature", feature) for feature in features]:
        words.extend(["-Xclang", flag, "-Xclang", value])
    return words

# The prefix of a flag that the driver accepts only for AMD GPUs, and its translation.
_CODE_OBJECT_VERSION = "-mcode-object-version="

def _flags_of_openmp(toolchain, flags, target):
    """Returns flags for a GPU in the form that the driver passes on in a compilation for the host."""
    result = []
    default = fact(toolchain, "code_object_version", target) if target_ids.is_amdgpu(target.triple) else ""
    version = _CODE_OBJECT_VERSION + default if default else None
    for flag in flags_of_device(flags, target):
        if flag in AMDGPU_FEATURES:
            result.extend(["-Xclang", "-target-feature", "-Xclang", AMDGPU_FEATURES[flag]])
        elif flag.startswith(_CODE_OBJECT_VERSION):
            version = flag
        else:
            result.append(flag)
    if version:
        result.extend(["-Xclang", version, "-mllvm", "--amdhsa-code-object-version=" + version.removeprefix(_CODE_OBJECT_VERSION)])
    return result

# ROCm.

def _rocm_path(version):
    return "--rocm-path=" + version.path.removesuffix("/share/hip/version")

def _folder_without_rocm(header):
    return header.path.rpartition("/hip/")[0]

def _rocm_flags(toolchain):
    """Returns flags with the locations of HIP's headers and the device libraries, or flags that disable both.

    Without ROCm, the inclusion of a header that only HIP has fails with an error message that explains what to do.
    """
    if toolchain.rocm:
        return [path_of(toolchain.rocm.version, _rocm_path)]
    flags = ["-nogpuinc", "-nogpulib"]
    for header in {_folder_without_rocm(header): header for header in toolchain.without_rocm}.values():
        flags.extend(["-idirafter", path_of(header, _folder_without_rocm)])
    return flags

def _rocm_files(toolchain):
    return toolchain.rocm.files if toolchain.rocm else depset(toolchain.without_rocm)

# The device libraries that are for one processor each. Clang requires all others, including that of OpenCL.
_ISA = "oclc_isa_version_"

def _device_libraries(toolchain, target_id):
    """Returns the device libraries that a compilation for a target ID links; None is the host."""
    if not toolchain.rocm or target_id == None:
        return []
    own = _ISA + target_id.split(":")[0].removeprefix("gfx") + ".bc"
    return [
        library
        for library in toolchain.rocm.device_libraries
        if library.basename == own or not library.basename.startswith(_ISA)
    ]
