"""hip_library compiles HIP sources to host and device code for C++ programs."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadImagesInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "ARCH_SRCS_ATTRS")
load(":bundling.bzl", "bundle_images")
load(":cc_flags.bzl", "cc_configuration")
load(":compilation.bzl", "compiler_of", "own_entries")
load(":compression.bzl", "COMPRESSION_ATTRS", "compression_of")
load(":debug_info.bzl", "DEBUG_INFO_ATTRS")
load(":flags.bzl", "expand_flags", "language_copts")
load(":headers.bzl", "library_headers")
load(":hip_compile.bzl", "DEVICE_DEPS_ATTRS", "c_objects", "hip_host_objects", "hip_images", "hip_sources")
load(":hip_device_link.bzl", "DEVICE_LINK_SUFFIX", "HipUnlinkedInfo", "device_link_symbol")
load(":images.bzl", "image_groups")
load(":libraries.bzl", "LIBRARY_ATTRS", "library_providers", "parse_headers")
load(":linking.bzl", "HOST_ATTRS", "entries_suffix", "hold_fat_binary", "host_triple", "register_images", "registration_symbol", "require_device_link")
load(":lto.bzl", "LTO_ATTRS", "lto_of")
load(":messages.bzl", "place")
load(":program.bzl", "BUNDLE_GROUP", "PROGRAM_GROUPS", "offload_program")
load(":sources.bzl", "COMPILE_INPUT", "HEADERS", "HIP_SOURCES")
load(":toolchains.bzl", "COMPILE_GROUP", "DEVICE_ATTRS", "HOST_CLANG_GROUPS")
load(":validation.bzl", "VALIDATION_ATTRS", "validate_bundle")

def _linked_together(ctx, *, where, host_objects, unit):
    """Links one fat binary for all sources and registers their kernels through offload entries."""
    bundle = bundle_images(
        ctx,
        compression = compression_of(ctx, where),
        host = host_triple(ctx),
        images = unit.images,
        out = ctx.actions.declare_file(ctx.label.name + ".hipfb"),
        where = where,
    )
    symbol = registration_symbol(ctx)
    return host_objects + [register_images(ctx, define = [symbol] if symbol else [], files = [bundle.file], kind = "hip", own_entries = host_objects)], [bundle]

def _linked_alone(ctx, *, where, program, sources, host_objects, units):
    """Creates a fat binary for each source, which the host code of the source registers."""
    objects = list(host_objects)
    bundles = []
    triple = host_triple(ctx)
    compression = compression_of(ctx, where)
    for source, unit, host in zip(sources, units, host_objects):
        bundle = bundle_images(
            ctx,
            compression = compression,
            host = triple,
            images = unit.images,
            out = ctx.actions.declare_file(ctx.label.name + ("/" + unit.name if unit.name else "") + ".hipfb"),
            program = program,
            source = source.file,
            where = where,
        )
        bundles.append(bundle)
        objects.append(hold_fat_binary(ctx, bundle = bundle.file, host = host, program = program, source = source.file, suffix = source.id, triple = triple))
    return objects, bundles

def _unlinked(ctx, *, host_objects, device_objects):
    """Returns host code for a hip_device_link, and adds a symbol that fails the link of programs without one."""
    unlinked = HipUnlinkedInfo(libraries = depset([struct(
        code = tuple([object for object in device_objects.objects.to_list() if object.label == ctx.label]),
        host = tuple(host_objects),
        label = ctx.label,
    )]))
    return host_objects + [require_device_link(ctx, device_link_symbol(ctx.label), define = registration_symbol(ctx))], unlinked

def _entries(ctx, rdc):
    """Returns which offload entries the host code gets, a result of `own_entries`."""
    if not rdc:
        return own_entries("")
    return own_entries(entries_suffix(ctx) if ctx.attr.device_link else DEVICE_LINK_SUFFIX, registration_symbol(ctx))

# The default of the setting.
_DEFAULT_RUNTIME = Label("//rules/settings:amdhip64")

def _runtime_of(ctx, compiler):
    """Returns HIP's runtime: from the setting, or else the toolchain's ROCm, or else the one that the linker finds."""
    runtime = ctx.attr._runtime
    if runtime.label != _DEFAULT_RUNTIME:
        return runtime
    return compiler.clang.hip_runtime or runtime

def _exported(ctx, headers, runtime):
    """Returns the headers for dependents. Headers of the library can include those of HIP."""
    if not ctx.files.hdrs and not ctx.files.textual_hdrs:
        return headers.context
    return cc_common.merge_compilation_contexts(compilation_contexts = [headers.context, runtime[CcInfo].compilation_context])

def _openmp_runtime_of(ctx, host_copts):
    """Returns clang's OpenMP runtime if host code uses it, a list."""
    for flag in host_copts + ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts:
        if flag in ("-fopenmp", "-fopenmp=libomp"):
            return [ctx.attr._host_openmp_runtime]
    return []

def _hip_library_impl(ctx):
    where = place(ctx, "hip_library")
    sources = hip_sources(ctx)
    rdc = ctx.attr.rdc and bool(sources)
    if not ctx.attr.rdc and not ctx.attr.device_link:
        fail("{}: device_link = False requires rdc = True: without it, the device code of each source is separate".format(where))
    copts = language_copts(ctx, "c++")
    headers = library_headers(ctx)
    compiler = compiler_of(ctx, cc = cc_configuration(ctx, COMPILE_GROUP, counts = True), headers = headers)
    made = struct(objects = None, units = []) if not sources else hip_images(
        ctx,
        compiler,
        copts = copts + expand_flags(ctx, "device_copts"),
        linked = ctx.attr.device_link,
        lto = lto_of(ctx, where, compiler.clang, "lto_hip_rdc" if rdc else "lto_hip"),
        per_source = not rdc,
        rdc = rdc,
        sources = sources,
        where = where,
    )
    host_copts = copts + expand_flags(ctx, "host_copts")
    host_objects = hip_host_objects(ctx, compiler, copts = host_copts, entries = _entries(ctx, rdc), rdc = rdc, sources = sources)
    program = offload_program(ctx, BUNDLE_GROUP)
    providers = [made.objects] if rdc else []
    bundles = []
    if not ctx.attr.device_link and sources:
        objects, unlinked = _unlinked(ctx, device_objects = made.objects, host_objects = host_objects)
        providers.append(unlinked)
    elif rdc:
        objects, bundles = _linked_together(ctx, host_objects = host_objects, unit = made.units[0], where = where)
    else:
        objects, bundles = _linked_alone(ctx, host_objects = host_objects, program = program, sources = sources, units = made.units, where = where)
    runtime = _runtime_of(ctx, compiler)
    objects = objects + c_objects(ctx, compiler)
    if len(bundles) == 1:
        providers.append(bundles[0])
    images = [image for unit in made.units for image in unit.images]
    return library_providers(ctx, compiler, context = _exported(ctx, headers, runtime), counted = True, objects = objects, runtimes = [runtime] + _openmp_runtime_of(ctx, host_copts + expand_flags(ctx, "conlyopts"))) + providers + [
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(
            _validation = depset(
                parse_headers(ctx, compiler, language = ["-x", "hip", "--offload-host-only"]) + [
                    report
                    for bundle, unit in zip(bundles, made.units)
                    for report in validate_bundle(ctx, bundle = bundle, images = unit.images, linked = True, program = program, where = where)
                ],
            ),
            bundle = depset([bundle.file for bundle in bundles]),
            compilation_outputs = depset(objects),
            **image_groups(images)
        ),
    ]

hip_library = rule(
    implementation = _hip_library_impl,
    doc = """Compiles HIP sources, with kernels and the host code that launches them, to a library for C++ programs.

Separate actions compile the host code and, for each architecture, the device code of each source. They run in parallel. As
with hipcc, the device code of each source is independent: an edit compiles and links one source. With `rdc = True`, the
device code of all sources is linked together for each architecture, and sources can call device functions of each other;
an edit generates code for all sources again.

Sources in `arch_srcs` are compiled for the host once and for some architectures only: other architectures cannot launch their
kernels. With `rdc = True`, such sources can define the same device functions for different architectures.

The library registers its own kernels. A program can contain any number of such libraries, also from other build systems.
With `rdc = True` and `device_link = False`, a `hip_device_link` registers the kernels instead. It links the device code of
all such libraries of a program once, as `hipcc -fgpu-rdc --hip-link` does, so that they share device functions and variables.

A library with one source or with `rdc = True` is also a bundle: other rules can unbundle, archive and extract it.

The setting `//rules/settings:hip_runtime` selects the runtime. The default is the runtime of the compiler's ROCm, or
`-lamdhip64` if the compiler is not part of a ROCm. If the library has `hdrs` or `textual_hdrs`, its dependents also get the
runtime's headers and definitions (`<hip/hip_runtime.h>`, `__HIP_PLATFORM_AMD__`), so that C++ sources can include its headers.

```starlark
hip_library(
    name = "solver",
    srcs = ["solver.hip"],
    hdrs = ["solver.h"],
    offload_archs = ["gfx90a", "gfx942"],
)

cc_binary(
    name = "app",
    srcs = ["main.cc"],
    deps = [":solver"],
)
```

Default outputs: as in `cc_library`: the archive, and the shared library if `linkstatic` is false.

Output groups: `bundle`, the bundles; `compilation_outputs`, as in `cc_library`, the objects; `gfx942` and so on, the images of one architecture; `debug_info`, see `split_debug_info`; `_validation`, the [checks](../howto/validation.md).
""",
    attrs = DEVICE_ATTRS | DEBUG_INFO_ATTRS | DEVICE_DEPS_ATTRS | LTO_ATTRS | LIBRARY_ATTRS | ARCHITECTURES_ATTRS | HOST_ATTRS | VALIDATION_ATTRS | COMPRESSION_ATTRS | ARCH_SRCS_ATTRS | {
        "c_as_hip": attr.bool(
            doc = "Whether to compile `.c` sources as HIP, as hipcc does with `-x hip`.",
        ),
        "device_link": attr.bool(
            default = True,
            doc = "Whether this target links the device code. `False` requires `rdc = True`: a `hip_device_link` then links it together with that of other libraries. Programs without one fail to link.",
        ),
        "rdc": attr.bool(
            doc = "Whether to compile to relocatable device code (hipcc's `-fgpu-rdc`), so that sources can call device functions of each other. Sources are compiled to bitcode, and the device link generates code.",
        ),
        "srcs": attr.label_list(
            doc = "HIP sources. Each source is compiled separately, `.c` as C, for the host only, unless `c_as_hip` is set. Only the sources of this target can include headers in this list. Without sources, the library only has headers.",
            allow_files = HIP_SOURCES + [".c"] + HEADERS,
            flags = COMPILE_INPUT,
        ),
        "_host_openmp_runtime": attr.label(
            default = "//rules/settings:host_openmp_runtime",
            providers = [CcInfo],
        ),
        "_runtime": attr.label(
            default = "//rules/settings:hip_runtime",
            providers = [CcInfo],
        ),
    },
    exec_groups = HOST_CLANG_GROUPS | PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo, OffloadImagesInfo],
    toolchains = use_cc_toolchain(),
)
