"""Actions that run the device compiler."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "ARCH_COPTS_ATTRS")
load(":device_link.bzl", "DEVICE_LINKOPTS_DOC")
load(":flags.bzl", "COMPILER_INPUTS_ATTRS", "LINKER_INPUTS_ATTRS", "add_flags", "expand_defines")
load(":messages.bzl", "name_of")
load(":toolchains.bzl", "DEVICE_TYPE", "PROGRAM_TYPE")

# The exec groups of compilations and of device links. Users can select a
# platform or machine for each: exec_properties = {"compile.Pool": "large"}.
COMPILE_GROUP = "compile"
LINK_GROUP = "link"

# The exec_groups of a rule that compiles and links device code.
CLANG_GROUPS = {
    COMPILE_GROUP: exec_group(toolchains = [
        config_common.toolchain_type(DEVICE_TYPE, mandatory = False),
        config_common.toolchain_type(PROGRAM_TYPE, mandatory = False),
    ]),
    LINK_GROUP: exec_group(toolchains = [PROGRAM_TYPE, config_common.toolchain_type(DEVICE_TYPE, mandatory = False)]),
}

def _compile_resources(_os, _inputs):
    return {"cpu": 1, "memory": 600}

def _link_resources(_os, inputs):
    return {"cpu": 1, "memory": 200 + inputs}

def clang_arguments(ctx):
    """Returns an `Args` for clang, which uses a response file if it is long.

    Args:
      ctx: the rule's context.

    Returns:
      an `Args`.
    """
    args = ctx.actions.args()
    args.use_param_file("@%s")
    args.set_param_file_format("shell")
    return args

def _rocm_folder(version):
    return version.path.removesuffix("/share/hip/version")

def _folder_without_rocm(header):
    return header.path.rpartition("/hip/")[0]

def add_rocm(args, toolchain):
    """Adds flags with the locations of HIP's headers and the device libraries, or flags that disable both.

    Without ROCm, the inclusion of a header that only HIP has fails with an error message that explains what to do.

    Args:
      args: an `Args`.
      toolchain: the `ToolchainInfo` of an `offload_device_toolchain`.
    """
    if toolchain.rocm:
        args.add_all([toolchain.rocm.version], map_each = _rocm_folder, format_each = "--rocm-path=%s")
    else:
        args.add_all(["-nogpuinc", "-nogpulib"])
        args.add_all(toolchain.without_rocm, before_each = "-idirafter", map_each = _folder_without_rocm, uniquify = True)

# The device libraries that are for one processor each. Clang requires all others, including that of OpenCL.
_ISA = "oclc_isa_version_"

def rocm_inputs(toolchain, target_id = None):
    """Returns HIP's headers, and the device libraries that a compilation for an architecture links.

    Args:
      toolchain: the `ToolchainInfo` of an `offload_device_toolchain`.
      target_id: the architecture, such as `gfx90a:xnack+`; None for the host, empty for portable code.

    Returns:
      a depset of Files; without ROCm, the headers that report its absence.
    """
    if not toolchain.rocm:
        return depset(toolchain.without_rocm)
    libraries = []
    if target_id != None:
        own = _ISA + target_id.split(":")[0].removeprefix("gfx") + ".bc"
        libraries = [
            library
            for library in toolchain.rocm.device_libraries
            if library.basename == own or not library.basename.startswith(_ISA)
        ]
    return depset(libraries, transitive = [toolchain.rocm.files])

# Extensions of headers, which srcs also accepts.
HEADERS = [".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tcc"]

# Attributes of rules that only compile device code.
DEVICE_CODE_ATTRS = ARCH_COPTS_ATTRS | COMPILER_INPUTS_ATTRS | LINKER_INPUTS_ATTRS | {
    "copts": attr.string_list(
        doc = "Additional compiler flags.",
    ),
    "defines": attr.string_list(
        doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`.",
    ),
    "deps": attr.label_list(
        doc = "Libraries whose headers the sources include, such as `cc_library` targets that only have `hdrs`.",
        providers = [CcInfo],
    ),
    "device_linkopts": attr.string_list(
        doc = DEVICE_LINKOPTS_DOC,
    ),
    "hdrs": attr.label_list(
        doc = "Headers that the sources include, by their path relative to the workspace.",
        allow_files = True,
    ),
    "includes": attr.string_list(
        doc = "Directories to add to the include path, relative to the package; `.` is the package itself.",
    ),
}

def repository_define(ctx):
    """Returns the definition with which C++ sources find their runfiles, as in cc_library.

    Args:
      ctx: the rule's context.

    Returns:
      a string for `add_flags`.
    """
    return "BAZEL_CURRENT_REPOSITORY=\"{}\"".format(ctx.label.repo_name)

def headers_of(ctx):
    """Returns the headers for sources, from the attributes hdrs, includes and defines, and the CcInfo of deps and device_deps.

    Args:
      ctx: the rule's context.

    Returns:
      a struct for `add_headers`; headers is a depset of the headers, files a depset of the headers and of the files that
      flags refer to.
    """
    compilation = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps + getattr(ctx.attr, "device_deps", []) if CcInfo in dep],
    ).compilation_context
    workspace = ctx.label.workspace_root or "."
    headers = depset(ctx.files.hdrs + private_headers_of(ctx), transitive = [compilation.headers])
    return struct(
        defines = depset(expand_defines(ctx, "defines") + [repository_define(ctx)], transitive = [compilation.defines]),
        files = depset(ctx.files.additional_compiler_inputs, transitive = [headers]),
        headers = headers,
        includes = depset(include_folders(ctx), transitive = [compilation.includes]),
        quote_includes = depset(_with_generated(ctx, [workspace]), transitive = [compilation.quote_includes]),
        system_includes = depset(transitive = [compilation.system_includes, compilation.external_includes]),
    )

def include_folders(ctx):
    """Returns the directories in the attribute includes.

    Args:
      ctx: the rule's context.

    Returns:
      list of paths, including those of generated files.
    """
    package = "/".join([part for part in [ctx.label.workspace_root, ctx.label.package] if part]) or "."
    own = []
    for include in ctx.attr.includes:
        if include.startswith("/") or ".." in include.split("/"):
            fail("{}: includes: {} is outside of the package: name a directory in it, or depend on a cc_library of the other package".format(name_of(ctx.label), repr(include)))
        own.append(package if include == "." else (include if package == "." else package + "/" + include))
    return _with_generated(ctx, own)

def sources_of(ctx):
    """Returns the files in srcs that are compiled.

    Args:
      ctx: the rule's context.

    Returns:
      list of Files.
    """
    return [file for file in ctx.files.srcs if "." + file.extension not in HEADERS]

def private_headers_of(ctx):
    """Returns the headers in srcs, which only the sources of the target can include.

    Args:
      ctx: the rule's context.

    Returns:
      list of Files.
    """
    return [file for file in ctx.files.srcs if "." + file.extension in HEADERS]

def _with_generated(ctx, folders):
    """Returns source directories, each followed by the directory of its generated files."""
    result = []
    for folder in folders:
        result.append(folder)
        result.append(ctx.bin_dir.path if folder == "." else ctx.bin_dir.path + "/" + folder)
    return result

def add_headers(args, headers, out):
    """Adds the flags for the result of `headers_of`.

    Args:
      args: an `Args`.
      headers: result of `headers_of`.
      out: an output of the action, which determines the directory of generated files.
    """
    add_flags(args, headers.defines, out, format_each = "-D%s")
    add_flags(args, headers.quote_includes, out, before_each = "-iquote")
    add_flags(args, headers.includes, out, before_each = "-I")
    add_flags(args, headers.system_includes, out, before_each = "-isystem")

def object_names(ctx, srcs):
    """Returns names for the outputs of compilations, relative to a directory of the target.

    Args:
      ctx: the rule's context.
      srcs: list of Files.

    Returns:
      list of paths without extension, all different.
    """
    package = "/".join([part for part in [ctx.label.repo_name and "../" + ctx.label.repo_name, ctx.label.package] if part])
    names = []
    for src in srcs:
        path = src.short_path
        if package and path.startswith(package + "/"):
            path = path[len(package) + 1:]
        path = path.replace("../", "")
        name = path.removesuffix("." + src.extension)
        names.append(path.replace(".", "_") if name in names else name)
    return names

def compilation_id(ctx, src):
    """Returns the compilation ID, which clang adds to names of symbols that must differ between sources.

    Clang's default is a hash of paths and options. This ID is the same for every
    architecture and machine, and different for every source.

    Args:
      ctx: the rule's context.
      src: the source.

    Returns:
      a string for `-cuid=`.
    """
    name = "{} {}".format(ctx.label, src.short_path)
    return "%x_%x" % (hash(name) + (1 << 31), hash(name[::-1]) + (1 << 31))

def source_name(label, src):
    """Returns the name of a source in messages of device links.

    Args:
      label: `Label` of the target that compiles it.
      src: the source, a File.

    Returns:
      a string: the path, which is relative to the workspace, and the target.
    """
    path = src.short_path
    return "{} ({})".format("external/" + path.removeprefix("../") if path.startswith("../") else path, name_of(label))

def run_clang(ctx, *, group, toolchain, arguments, inputs, out, mnemonic, progress_message, command = None, command_arguments = None, env = {}, headers = None, maps_paths = True, stdin = None, linked = None, advice = "", without_runtime = ""):
    """Registers an action that runs clang.

    If headers is set, the program runs clang and lists the headers that clang does not read. Bazel does not repeat the
    action if only they change. The action's command line names all headers, so an additional or deleted header repeats it.

    Args:
      ctx: the rule's context; the rule has `CLANG_GROUPS` in its exec_groups and `DEVICE_ATTRS`.
      group: COMPILE_GROUP or LINK_GROUP.
      toolchain: result of `device_toolchain_of` for the group.
      arguments: result of `clang_arguments`, with all arguments added.
      inputs: depset of Files, without those of the toolchain and, for links, `additional_linker_inputs`.
      out: the File that clang writes.
      mnemonic: the action's mnemonic.
      progress_message: the action's progress message, with Bazel's placeholders.
      command: a command of bash that calls clang, whose path and arguments follow
        command_arguments; None to call it without a shell.
      command_arguments: an `Args`.
      env: the action's environment, a dict of strings.
      headers: depset of Files in inputs that clang reads only if sources include them; None if it reads no source.
      maps_paths: whether the output is the same if Bazel maps paths.
      stdin: the File that clang reads from standard input; None if it reads none there.
      linked: for the link of device code, a list of structs: file (an object or bitcode) and source (its name in
        messages). If lld reports undefined symbols, the build prints which sources refer to them.
      advice: what to do about undefined symbols, for the message.
      without_runtime: the GPU of an OpenMP link without libraries, which fails if an object calls LLVM's device runtime.
    """
    files = [inputs, toolchain.compile_files if group == COMPILE_GROUP else toolchain.link_files]
    if group == LINK_GROUP:
        files.append(depset(ctx.files.additional_linker_inputs))
    common = {
        "env": env,
        "exec_group": group,
        "execution_requirements": {"supports-path-mapping": "1"} if maps_paths else {},
        "inputs": depset(transitive = files),
        "mnemonic": mnemonic,
        "progress_message": progress_message,
        "resource_set": _compile_resources if group == COMPILE_GROUP else _link_resources,
    }
    if linked:
        call = ctx.actions.args()
        call.use_param_file("@%s", use_always = True)
        call.set_param_file_format("multiline")
        call.add("link-device")
        call.add(advice, format = "--advice=%s")
        if without_runtime:
            call.add(without_runtime, format = "--without-runtime=%s")
        for object in linked:
            call.add(object.file, format = "--object=%s")
            call.add(object.source, format = "--source=%s")
        call.add("--")
        call.add(toolchain.clang.executable)

        # The program leaves files with two @ to clang, which reads another format.
        arguments.use_param_file("@@%s")
        ctx.actions.run(
            arguments = [call, arguments],
            executable = ctx.exec_groups[group].toolchains[PROGRAM_TYPE].offload_program,
            outputs = [out],
            tools = [toolchain.clang],
            **common
        )
        return
    clang = ctx.actions.args()
    clang.add(toolchain.clang.executable)
    program = _program_that_lists(ctx) if headers != None else None
    if program:
        unused = ctx.actions.declare_file(out.basename + ".unused", sibling = out)
        shell = ctx.actions.args()
        if command:
            shell.add_all(["bash", "-c", command, ""])
        ctx.actions.run(
            arguments = _listing_arguments(ctx, headers, stdin, unused) + [shell] + ([command_arguments] if command else []) + [clang, arguments],
            executable = program,
            outputs = [out, unused],
            tools = [toolchain.clang],
            unused_inputs_list = unused,
            **common
        )
    elif command:
        ctx.actions.run_shell(
            arguments = [command_arguments, clang, arguments],
            command = command,
            outputs = [out],
            tools = [toolchain.clang],
            **common
        )
    else:
        ctx.actions.run(arguments = [arguments], executable = toolchain.clang, outputs = [out], **common)

def _program_that_lists(ctx):
    """Returns the program if compilations list the headers that they do not read, else None."""
    if not ctx.attr._track_headers[BuildSettingInfo].value:
        return None
    toolchain = ctx.exec_groups[COMPILE_GROUP].toolchains[PROGRAM_TYPE]
    return toolchain.offload_program if toolchain else None

def _listing_arguments(ctx, headers, stdin, unused):
    """Returns the arguments with which the program runs a command, a list of `Args`."""
    verb = ctx.actions.args()
    verb.add("compile")
    listed = ctx.actions.args()
    listed.use_param_file("--headers=%s", use_always = True)
    listed.set_param_file_format("multiline")
    listed.add_all(headers, expand_directories = False)
    rest = ctx.actions.args()
    rest.add(unused, format = "--unused=%s")
    if stdin:
        rest.add(stdin, format = "--stdin=%s")
    rest.add("--")
    return [verb, listed, rest]
