"""openmp_library compiles C and C++ with OpenMP target regions for C++ programs."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadDeviceBitcodeInfo", "OffloadImagesInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "arch_copts_of", "arch_linkopts_of", "architectures_of", "check_compiler", "device_linkopts_of")
load(":cc_flags.bzl", "cc_configuration")
load(":compilation.bzl", "compile", "compiler_of", "is_nvidia", "is_openmp_bitcode", "openmp_device_step", "openmp_host_step", "openmp_language", "openmp_object_step", "openmp_source_step", "openmp_triple", "own_entries")
load(":debug_info.bzl", "DEBUG_INFO_ATTRS", "split_debug_info")
load(":device_bitcode.bzl", "bitcode_for")
load(":device_link.bzl", "device_link", "openmp_link_step")
load(":flags.bzl", "expand_flags", "language_copts")
load(":headers.bzl", "library_headers")
load(":images.bzl", "image_groups")
load(":libraries.bzl", "LIBRARY_ATTRS", "library_providers", "merged_object", "parse_headers")
load(":linking.bzl", "HOST_ATTRS", "entries_suffix", "host_triple", "register_images", "registration_symbol")
load(":lto.bzl", "LTO_ATTRS", "lto_of")
load(":messages.bzl", "file_name", "place")
load(":offload_binary.bzl", "add_image")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":sources.bzl", "COMPILE_INPUT", "CXX_SOURCES", "HEADERS", "object_names", "require_sources", "source_name", "sources_of")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "COMPILE_GROUP", "DEVICE_ATTRS", "HOST_CLANG_GROUPS")

_KIND = "openmp"

# The largest number of empty lines at the start of a source.
_MOST_LINES = 100003

def _folder(target):
    return target_ids.file_name(target.target_id or openmp_triple(target))

def _empty_lines(ctx, srcs):
    """Returns the number of empty lines before each source; all numbers differ."""
    counts = {}
    for src in srcs:
        count = hash("{} {}".format(ctx.label, src.short_path)) % _MOST_LINES
        for _ in srcs:
            if count + 1 not in counts:
                break
            count = (count + 1) % _MOST_LINES
        counts[count + 1] = None
    return counts.keys()

def _host(ctx, compiler, src, name, *, empty_lines, entries, targets):
    """Compiles a source for the host.

    Returns:
      a struct: full, the source with its headers; ir, bitcode for compilations for devices; object.
    """
    copts = language_copts(ctx, openmp_language(src)) + expand_flags(ctx, "host_copts")
    full = ctx.actions.declare_file("{}/{}.full.{}".format(ctx.label.name, name, src.extension))
    compile(
        ctx,
        compiler,
        openmp_source_step(
            compiler,
            src,
            copts = copts,
            empty_lines = empty_lines,
            gpu = any([target.target_id for target in targets]),
        ),
        message = "Including headers in {}".format(file_name(src)),
        mnemonic = "OffloadOpenMpIncludes",
        out = full,
        src = src,
    )
    ir = ctx.actions.declare_file("{}/host/{}.bc".format(ctx.label.name, name))
    compile(
        ctx,
        compiler,
        openmp_host_step(compiler, src, copts = copts, triples = {openmp_triple(target): None for target in targets}.keys()),
        message = "Compiling {} for the host".format(file_name(src)),
        mnemonic = "OffloadOpenMpHostCompile",
        out = ir,
        src = full,
    )
    object = ctx.actions.declare_file("{}/host/{}.o".format(ctx.label.name, name))
    compile(
        ctx,
        compiler,
        openmp_object_step(compiler, src, copts = copts, entries = entries),
        message = "Generating host code of " + file_name(src),
        mnemonic = "OffloadOpenMpHostObject",
        out = object,
        src = ir,
    )
    return struct(full = full, ir = ir, object = object)

def _device_object(ctx, compiler, src, name, *, host, lto, target, where):
    out = ctx.actions.declare_file("{}/{}/{}.{}".format(ctx.label.name, _folder(target), name, "bc" if is_openmp_bitcode(target, lto) else "o"))
    compile(
        ctx,
        compiler,
        openmp_device_step(
            ctx,
            compiler,
            src,
            target,
            # The image for a CPU calls functions of the program.
            bitcode = bitcode_for(ctx.attr.device_deps, target, where) if target.target_id else [],
            copts = language_copts(ctx, openmp_language(src)),
            device_copts = expand_flags(ctx, "device_copts") + arch_copts_of(ctx, target),
            ir = host.ir,
            lto = lto,
        ),
        message = "Compiling {} for {}".format(file_name(src), target.target_id or openmp_triple(target)),
        mnemonic = "OffloadOpenMpCompile",
        out = out,
        src = host.full,
    )
    return struct(file = out, source = source_name(ctx.label, src))

_UNDEFINED = "add a definition to srcs, or add the device_bitcode_library that has one to device_deps; for symbols that begin with __kmpc_, add LLVM's device runtime to device_linkopts"

def _link(ctx, compiler, linked, target, lto):
    out = ctx.actions.declare_file("{}/{}.img".format(ctx.label.name, _folder(target)))
    whole, debug_info = split_debug_info(ctx, target, out)
    device_link(
        ctx,
        openmp_link_step(
            ctx,
            target,
            copts = compiler.language_flags("c++", True) + language_copts(ctx, "c++") + expand_flags(ctx, "device_copts") + arch_copts_of(ctx, target),
            advice = _UNDEFINED,
            generates = is_openmp_bitcode(target, lto),
            linkopts = device_linkopts_of(ctx) + arch_linkopts_of(ctx, target),
            triple = openmp_triple(target),
        ),
        linked = linked,
        message = "Linking %{label} for " + (target.target_id or openmp_triple(target)),
        mnemonic = "OffloadDeviceLink",
        out = whole,
    )
    return target_ids.image(target, out, ctx.label, debug_info)

def _pack(ctx, image, folder, where):
    # The runtime reads the target from the package, not from the image.
    out = ctx.actions.declare_file("{}/{}.ofb".format(ctx.label.name, folder))
    args = offload_arguments(ctx, "pack")
    args.add(out, format = "--output=%s")
    add_image(args, image, where)
    run_offload(
        ctx,
        arguments = [args],
        inputs = [image.file],
        mnemonic = "OffloadPack",
        outputs = [out],
        progress_message = "Packing device images of %{label} for " + folder,
    )
    return out

def _openmp_library_impl(ctx):
    where = place(ctx, "openmp_library")
    require_sources(ctx, where, "add C or C++ sources, or use cc_library for headers")
    targets = architectures_of(ctx, where, _KIND, default = [host_triple(ctx)])
    for target in targets:
        if target.kind != _KIND:
            fail("{}: offload_archs: {} has kind {}, expected openmp".format(where, target.id, target.kind))
        if target.triple.startswith("spirv64-") or (target_ids.is_amdgpu(target.triple) or is_nvidia(target)) != bool(target.target_id):
            fail("{}: offload_archs: {} is neither a GPU, such as gfx90a and sm_80, nor a CPU, such as x86_64-pc-linux-gnu".format(
                where,
                target.target_id or openmp_triple(target),
            ))
    headers = library_headers(ctx)
    compiler = compiler_of(ctx, cc = cc_configuration(ctx, COMPILE_GROUP), headers = headers)
    check_compiler(compiler.clang, targets, where)
    lto = lto_of(ctx, where, compiler.clang, "lto_openmp")

    symbol = registration_symbol(ctx)
    entries = own_entries(entries_suffix(ctx), symbol)
    objects = []
    device_objects = {}
    for src, name, empty_lines in zip(sources_of(ctx), object_names(ctx, sources_of(ctx)), _empty_lines(ctx, sources_of(ctx))):
        host = _host(ctx, compiler, src, name, empty_lines = empty_lines, entries = entries, targets = targets)
        objects.append(host.object)
        for target in targets:
            device_objects.setdefault(_folder(target), []).append(
                _device_object(ctx, compiler, src, name, host = host, lto = lto(target), target = target, where = where),
            )
    images = []
    packages = []
    for target in targets:
        image = _link(ctx, compiler, device_objects[_folder(target)], target, lto(target))
        images.append(image)
        packages.append(_pack(ctx, image, _folder(target), where))

    objects.append(register_images(ctx, define = [symbol] if symbol else [], files = packages, kind = _KIND, own_entries = objects, relocatable = ctx.attr.relocatable))
    if ctx.attr.relocatable:
        objects = [merged_object(ctx, objects)]
    return library_providers(ctx, compiler, context = headers.context, objects = objects, runtimes = [ctx.attr._runtime]) + [
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(
            _validation = depset(parse_headers(ctx, compiler, language = ["-x", "c++", "-fopenmp"])),
            compilation_outputs = depset(objects),
            **image_groups(images)
        ),
    ]

openmp_library = rule(
    implementation = _openmp_library_impl,
    doc = """Compiles C and C++ sources with OpenMP target regions to a library for C++ programs.

Separate actions compile the host code and, for each target, the device code of each source. The device code of all sources
is linked together for each target. The library registers its own images. A program can contain any number of such
libraries, also from other build systems.

Targets are AMD GPUs (`gfx90a`) and the CPU itself (`x86_64-pc-linux-gnu`). The CPU is the default if `offload_archs` and
the setting are empty. For GPUs, `device_linkopts` or `arch_linkopts` must include LLVM's device runtime:

<!-- not run: names a directory with LLVM's device runtime; tests/devicecode links for GPUs. -->
```starlark
openmp_library(
    name = "stats",
    srcs = ["stats.cc"],
    hdrs = ["stats.h"],
    arch_linkopts = {"amdgcn-amd-amdhsa": ["-L/sw/llvm/lib/amdgcn-amd-amdhsa", "-lompdevice"]},
    offload_archs = ["gfx90a"],
)
```

Without it, the build fails with a message that says whether this LLVM has the runtime.

For NVIDIA GPUs (`sm_80`), the image is LLVM bitcode, as with `clang -fopenmp-target-jit`. The build does not require CUDA.
The runtime generates the code with CUDA's `ptxas` when the program starts.

The names of kernels do not depend on the machine or directory of a build, even for target regions in headers. Therefore,
the actions can be cached and run remotely. Messages and debug information refer to files as `//stats/scale.cc`, and to
files outside of the workspace as `//system/usr/include/omp.h`.

The setting `//rules/settings:openmp_runtime` selects the runtime. The default is `-lomptarget -lomp`.

Default outputs: as in `cc_library`: the archive, and the shared library if `linkstatic` is false.

Output groups: `gfx90a`, `x86_64-pc-linux-gnu` and so on, the image of one target; `compilation_outputs`, as in `cc_library`, the objects; `debug_info`, see `split_debug_info`; `_validation`, the headers with the feature `parse_headers`.
""",
    attrs = DEVICE_ATTRS | DEBUG_INFO_ATTRS | LTO_ATTRS | LIBRARY_ATTRS | ARCHITECTURES_ATTRS | HOST_ATTRS | {
        "device_deps": attr.label_list(
            doc = "`device_bitcode_library` targets whose functions are called by device code for AMD GPUs. They must be compiled for the same architectures.",
            providers = [OffloadDeviceBitcodeInfo],
        ),
        "relocatable": attr.bool(
            doc = "Whether to merge the library into one object that requires only the runtime. Archives can contain the object, and so can " +
                  "programs that clang links with `-fopenmp --offload-arch`; their device link ignores its images.",
        ),
        "srcs": attr.label_list(
            doc = "C or C++ sources, unlike in `cc_library` at least one: headers without sources have no device code. Each source is compiled separately. Only the sources of this target can include headers in this list.",
            mandatory = True,
            allow_files = [".c"] + CXX_SOURCES + HEADERS,
            flags = COMPILE_INPUT,
        ),
        "_runtime": attr.label(
            default = "//rules/settings:openmp_runtime",
            providers = [CcInfo],
        ),
    },
    exec_groups = HOST_CLANG_GROUPS | PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo, OffloadImagesInfo],
    toolchains = use_cc_toolchain(),
)
