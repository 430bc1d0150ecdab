"""openmp_library: C and C++ with OpenMP target regions, for C++ programs."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadImagesInfo", "offload_image")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "architectures_of")
load(":clang.bzl", "CLANG_GROUPS", "COMPILE_GROUP", "LINK_GROUP", "add_headers", "clang_arguments", "headers_of", "object_names", "run_clang")
load(":linking.bzl", "HOST_ATTRS", "host_triple", "isolate_objects", "linked_cc_info", "register_images")
load(":messages.bzl", "place")
load(":offload_binary.bzl", "add_image")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "device_toolchain_of")

_KIND = "openmp"

# Clang puts the device and inode number of a source into the names of its kernels,
# which differ on every machine, unless it reads the source from its standard input.
# Then the names tell only function and line. So that they differ between sources
# nevertheless, empty lines stand before each source, and a directive that brings
# messages back to the right lines. It names the source by its label: a name under
# which there is a file would give clang an inode number again.
_MOST_LINES = 20011

def _source_head(ctx, src, name):
    out = ctx.actions.declare_file("{}/{}.head".format(ctx.label.name, name))
    label = "//{}:{}".format(ctx.label.package, src.short_path.removeprefix(ctx.label.package + "/"))
    lines = hash("{} {}".format(ctx.label, src.short_path)) % _MOST_LINES
    ctx.actions.write(out, "\n" * lines + "#line 1 \"{}\"\n".format(label))
    return out

def _triple(target):
    return target.triple.removesuffix("-")

def _folder(target):
    return target_ids.file_name(target.target_id or _triple(target))

def _add_target(args, target, host):
    """Adds the flags for what a device compilation is for.

    The driver cannot compile for a device alone: it would compile for the host
    first, from the same standard input. So it is told to compile for the host,
    where it finds the system's headers, and the compiler behind it for the device.
    """
    if not target.target_id:
        args.add(_triple(target), format = "--target=%s")
        return
    args.add(host, format = "--target=%s")
    parts = target.target_id.split(":")
    for flag, value in [
        ("-triple", _triple(target)),
        ("-target-cpu", parts[0]),
        ("-tune-cpu", parts[0]),
    ] + [("-target-feature", feature[-1] + feature[:-1]) for feature in parts[1:]]:
        args.add_all(["-Xclang", flag, "-Xclang", value])

def _folder_of(src):
    return src.dirname or "."

def _compile_arguments(ctx, toolchain, src):
    args = clang_arguments(ctx)
    args.add_all(["-x", "c" if src.extension == "c" else "c++"])
    args.add_all(toolchain.compile_flags)
    args.add_all(toolchain.mode_flags[ctx.var["COMPILATION_MODE"]])
    args.add_all(["-fopenmp", "-fPIC", "-nogpulib"])
    args.add_all([src], before_each = "-iquote", map_each = _folder_of)
    return args

def _host_ir(ctx, toolchain, headers, src, head, name, targets):
    out = ctx.actions.declare_file("{}/host/{}.bc".format(ctx.label.name, name))
    args = _compile_arguments(ctx, toolchain, src)
    triples = {_triple(target): None for target in targets}
    args.add_joined(triples.keys(), join_with = ",", format_joined = "-fopenmp-targets=%s")
    args.add_all(["--offload-host-only", "-emit-llvm", "-c"])
    add_headers(args, headers, out)
    args.add_all(ctx.attr.copts + ctx.attr.host_copts)
    args.add("-o", out)
    args.add("-")
    run_clang(
        ctx,
        arguments = args,
        group = COMPILE_GROUP,
        inputs = headers.files,
        mnemonic = "OffloadOpenMpHostCompile",
        out = out,
        progress_message = "Compiling {} for the host".format(src.short_path),
        stdin = [head, src],
        toolchain = toolchain,
    )
    return out

def _host_object(ctx, toolchain, ir, name):
    out = ctx.actions.declare_file("{}/host/{}.o".format(ctx.label.name, name))
    args = clang_arguments(ctx)
    args.add_all(toolchain.compile_flags)
    args.add_all(toolchain.mode_flags[ctx.var["COMPILATION_MODE"]])
    args.add_all(["-fPIC", "-x", "ir", "-c", "-o", out, ir])
    run_clang(
        ctx,
        arguments = args,
        group = COMPILE_GROUP,
        inputs = depset([ir]),
        mnemonic = "OffloadOpenMpHostObject",
        out = out,
        progress_message = "Generating %{output}",
        toolchain = toolchain,
    )
    return out

def _device_object(ctx, toolchain, headers, src, head, ir, name, target, folder):
    gpu = bool(target.target_id)
    out = ctx.actions.declare_file("{}/{}/{}.{}".format(ctx.label.name, folder, name, "bc" if gpu else "o"))
    host = host_triple(ctx)
    args = _compile_arguments(ctx, toolchain, src)
    _add_target(args, target, host)
    args.add_all(["-Xclang", "-fopenmp-is-target-device", "-Xclang", "-aux-triple", "-Xclang", host])
    args.add_all(["-Xclang", "-fopenmp-host-ir-file-path", "-Xclang", ir])
    args.add_all(["-emit-llvm"] if gpu else [])
    args.add("-c")
    add_headers(args, headers, out)
    args.add_all(ctx.attr.copts + ctx.attr.device_copts)
    args.add("-o", out)
    args.add("-")
    run_clang(
        ctx,
        arguments = args,
        group = COMPILE_GROUP,
        inputs = depset([ir], transitive = [headers.files]),
        mnemonic = "OffloadOpenMpCompile",
        out = out,
        progress_message = "Compiling {} for {}".format(src.short_path, target.target_id or _triple(target)),
        stdin = [head, src],
        toolchain = toolchain,
    )
    return out

def _link(ctx, toolchain, objects, target, folder):
    out = ctx.actions.declare_file("{}/{}.img".format(ctx.label.name, folder))
    args = clang_arguments(ctx)
    args.add(_triple(target), format = "--target=%s")
    if target.target_id:
        args.add(target.target_id, format = "-mcpu=%s")
        args.add("-nogpulib")
    else:
        # The program has the libraries that the image uses.
        args.add_all(["-fuse-ld=lld", "-nostdlib", "-shared", "-Wl,-Bsymbolic"])
    args.add_all(toolchain.link_flags)
    args.add_all(ctx.attr.device_linkopts)
    args.add("-o", out)
    args.add_all(objects)
    run_clang(
        ctx,
        arguments = args,
        group = LINK_GROUP,
        inputs = depset(objects),
        mnemonic = "OffloadDeviceLink",
        out = out,
        progress_message = "Linking %{label} for " + (target.target_id or _triple(target)),
        toolchain = toolchain,
    )
    return offload_image(
        file = out,
        kind = _KIND,
        label = ctx.label,
        target_id = target.target_id,
        triple = target.triple,
    )

def _pack(ctx, image, folder, where):
    # A runtime asks the package, and not the image, what it is for.
    out = ctx.actions.declare_file("{}/{}.ofb".format(ctx.label.name, folder))
    args = offload_arguments(ctx, "pack")
    args.add(out, format = "--output=%s")
    add_image(args, image, where)
    run_offload(
        ctx,
        arguments = args,
        inputs = [image.file],
        mnemonic = "OffloadPack",
        outputs = [out],
        progress_message = "Packing %{input}",
    )
    return out

def _openmp_library_impl(ctx):
    where = place(ctx, "openmp_library")
    if not ctx.files.srcs:
        fail("{}: srcs is empty: give it C or C++ sources".format(where))
    targets = architectures_of(ctx, where, _KIND)
    for target in targets:
        if target.kind != _KIND:
            fail("{}: offload_archs: {} is of kind {}, not openmp".format(where, target_ids.entry_id(target.kind, target.triple, target.target_id), target.kind))
        if target.triple.startswith("nvptx") or target.triple.startswith("spirv"):
            fail("{}: offload_archs: {} is neither an AMD GPU, as gfx90a is, nor a CPU, as x86_64-pc-linux-gnu is".format(where, target.target_id or _triple(target)))
    compiler = device_toolchain_of(ctx, COMPILE_GROUP)
    linker = device_toolchain_of(ctx, LINK_GROUP)
    headers = headers_of(ctx)

    objects = []
    device_objects = {}
    for src, name in zip(ctx.files.srcs, object_names(ctx, ctx.files.srcs)):
        head = _source_head(ctx, src, name)
        ir = _host_ir(ctx, compiler, headers, src, head, name, targets)
        objects.append(_host_object(ctx, compiler, ir, name))
        for target in targets:
            folder = _folder(target)
            device_objects.setdefault(folder, []).append(_device_object(ctx, compiler, headers, src, head, ir, name, target, folder))
    images = []
    packages = []
    for target in targets:
        folder = _folder(target)
        image = _link(ctx, linker, device_objects[folder], target, folder)
        images.append(image)
        packages.append(_pack(ctx, image, folder, where))

    objects = isolate_objects(ctx, objects)
    objects.append(register_images(ctx, files = packages, kind = _KIND, own_entries = objects))
    deps = [dep[CcInfo] for dep in ctx.attr.deps]
    own = cc_common.create_compilation_context(
        defines = depset(ctx.attr.defines),
        headers = depset(ctx.files.hdrs),
        includes = headers.own_includes,
    )
    return [
        DefaultInfo(files = depset(objects)),
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(**{image.target_id or _triple(image): depset([image.file]) for image in images}),
        linked_cc_info(
            ctx,
            compilation_context = cc_common.merge_compilation_contexts(
                compilation_contexts = [own] + [dep.compilation_context for dep in deps],
            ),
            deps = deps + [ctx.attr._runtime[CcInfo]],
            objects = objects,
        ),
    ]

openmp_library = rule(
    implementation = _openmp_library_impl,
    doc = """C and C++ sources with OpenMP target regions, as a library for C++ programs.

Host and device code are compiled apart, each source and target in an action of its own. The device code of all sources
is linked together, for each target. The library registers its own images: a program may have any number of such
libraries, from here or from elsewhere.

Targets are AMD GPUs (`gfx90a`), for which the toolchain or `device_linkopts` must have LLVM's device runtime, and the CPU
itself (`x86_64-pc-linux-gnu`), which needs nothing.

The names of kernels do not depend on the machine or folder of a build, so its actions can be cached and run remotely.
That is not so for target regions in headers: clang names them after the header's inode number.

The runtime is what the setting `//rules/settings:openmp_runtime` names, by default `-lomptarget -lomp`.
""",
    attrs = ARCHITECTURES_ATTRS | HOST_ATTRS | {
        "copts": attr.string_list(
            doc = "More compiler flags, for host and device code.",
        ),
        "defines": attr.string_list(
            doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`, also for dependents.",
        ),
        "deps": attr.label_list(
            doc = "Libraries that the sources include headers of, and that are linked with them.",
            providers = [CcInfo],
        ),
        "device_copts": attr.string_list(
            doc = "More compiler flags for device code.",
        ),
        "device_linkopts": attr.string_list(
            doc = "More flags of the device link, which clang's driver takes.",
        ),
        "hdrs": attr.label_list(
            doc = "Headers that the sources and dependents include, by their path in the workspace.",
            allow_files = True,
        ),
        "host_copts": attr.string_list(
            doc = "More compiler flags for host code.",
        ),
        "includes": attr.string_list(
            doc = "Folders of this package that the compiler looks in for headers, `.` for the package itself; also for dependents.",
        ),
        "srcs": attr.label_list(
            doc = "C or C++ sources. Each is compiled by itself.",
            mandatory = True,
            allow_files = [".c", ".cpp", ".cc", ".cxx"],
        ),
        "_runtime": attr.label(
            default = "//rules/settings:openmp_runtime",
            providers = [CcInfo],
        ),
    },
    exec_groups = CLANG_GROUPS | PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo, OffloadImagesInfo],
    toolchains = use_cc_toolchain(),
)
