"""hip_library: HIP sources, host and device code, for C++ programs."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadImagesInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS")
load(":bundling.bzl", "bundle_images")
load(":cc_flags.bzl", "cc_configuration", "device_flags")
load(":clang.bzl", "CLANG_GROUPS", "COMPILE_GROUP", "HEADERS", "compilation_id", "object_names", "sources_of")
load(":compression.bzl", "COMPRESSION_ATTRS")
load(":flags.bzl", "expand_flags")
load(":hip_compile.bzl", "DEVICE_DEPS_ATTRS", "hip_host_objects", "hip_images")
load(":hip_device_link.bzl", "DEVICE_LINK_SUFFIX", "HipUnlinkedInfo", "device_link_symbol")
load(":images.bzl", "image_groups")
load(":libraries.bzl", "LIBRARY_ATTRS", "library_headers", "library_providers", "parse_headers")
load(":linking.bzl", "HOST_ATTRS", "hold_fat_binary", "host_triple", "isolate_objects", "register_images", "require_device_link")
load(":messages.bzl", "place")
load(":program.bzl", "PROGRAM_GROUPS")
load(":toolchains.bzl", "DEVICE_ATTRS", "device_toolchain_of")
load(":validation.bzl", "VALIDATION_ATTRS", "validate_bundle")

def _linked_together(ctx, *, where, host_objects, unit):
    """One fat binary for all sources, whose kernels are registered by their offload entries."""
    bundle = bundle_images(
        ctx,
        host = host_triple(ctx),
        images = unit.images,
        out = ctx.actions.declare_file(ctx.label.name + ".hipfb"),
        where = where,
    )
    objects = isolate_objects(ctx, host_objects)
    objects.append(register_images(ctx, files = [bundle.file], kind = "hip", own_entries = objects))
    return objects, [bundle]

def _linked_alone(ctx, *, where, host_objects, units):
    """A fat binary for each source, which its host code registers."""
    suffixes = [compilation_id(ctx, src) for src in sources_of(ctx)]
    names = object_names(ctx, sources_of(ctx))
    objects = isolate_objects(ctx, host_objects, suffixes)
    bundles = []
    for name, suffix, unit in zip(names, suffixes, units):
        bundle = bundle_images(
            ctx,
            host = host_triple(ctx),
            images = unit.images,
            out = ctx.actions.declare_file("{}/{}.hipfb".format(ctx.label.name, unit.name) if unit.name else ctx.label.name + ".hipfb"),
            where = where,
        )
        bundles.append(bundle)
        objects.append(hold_fat_binary(ctx, bundle = bundle.file, name = name, suffix = suffix))
    return objects, bundles

def _unlinked(ctx, *, host_objects, device_objects):
    """Host code whose kernels a hip_device_link registers, and what makes programs fail to link that have none."""
    objects = isolate_objects(ctx, host_objects, [DEVICE_LINK_SUFFIX] * len(host_objects))
    unlinked = HipUnlinkedInfo(libraries = depset([struct(
        code = tuple([object for object in device_objects.objects.to_list() if object.label == ctx.label]),
        host = tuple(objects),
        label = ctx.label,
    )]))
    return objects + [require_device_link(ctx, device_link_symbol(ctx.label))], unlinked

# What the setting names where nobody has set it.
_DEFAULT_RUNTIME = Label("//rules/settings:amdhip64")

def _runtime_of(ctx):
    """HIP's runtime: what the setting names, else that of the toolchain's ROCm, else what the linker finds."""
    runtime = ctx.attr._runtime
    if runtime.label != _DEFAULT_RUNTIME:
        return runtime
    return device_toolchain_of(ctx, COMPILE_GROUP).hip_runtime or runtime

def _hip_library_impl(ctx):
    where = place(ctx, "hip_library")
    rdc = ctx.attr.rdc
    if not rdc and not ctx.attr.device_link:
        fail("{}: device_link = False needs rdc = True: without it, each source is device code of its own".format(where))
    cc = cc_configuration(ctx, counts = True)
    copts = expand_flags(ctx, "copts")
    headers = library_headers(ctx, cc)
    made = hip_images(
        ctx,
        copts = device_flags(ctx, cc) + copts + expand_flags(ctx, "device_copts"),
        headers = headers,
        linked = ctx.attr.device_link,
        linkopts = expand_flags(ctx, "device_linkopts"),
        per_source = not rdc,
        rdc = rdc,
        where = where,
    )
    host_objects = hip_host_objects(ctx, cc = cc, copts = copts + expand_flags(ctx, "host_copts"), headers = headers, rdc = rdc)
    providers = [made.objects] if rdc else []
    bundles = []
    if not ctx.attr.device_link:
        objects, unlinked = _unlinked(ctx, device_objects = made.objects, host_objects = host_objects)
        providers.append(unlinked)
    elif rdc:
        objects, bundles = _linked_together(ctx, host_objects = host_objects, unit = made.units[0], where = where)
    else:
        objects, bundles = _linked_alone(ctx, host_objects = host_objects, units = made.units, where = where)
    if len(bundles) == 1:
        providers.append(bundles[0])
    images = [image for unit in made.units for image in unit.images]
    return library_providers(ctx, counted = True, headers = headers, objects = objects, runtime = _runtime_of(ctx)) + providers + [
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(
            _validation = depset(parse_headers(ctx, cc = cc, headers = headers, language = ["-x", "hip", "--offload-host-only"]), transitive = [
                validate_bundle(ctx, bundle = bundle, images = unit.images, linked = True, where = where)
                for bundle, unit in zip(bundles, made.units)
            ]),
            bundle = depset([bundle.file for bundle in bundles]),
            **image_groups(images)
        ),
    ]

hip_library = rule(
    implementation = _hip_library_impl,
    doc = """HIP sources with kernels and the host code that launches them, as a library for C++ programs.

Host and device code are compiled apart, each source and architecture in an action of its own; neither waits for the
other. Each source is device code of its own, as with hipcc: an edit compiles and links one source. With `rdc = True` the
device code of all sources is linked together, for each architecture, and may call across sources; an edit generates code
for all of them again.

The library registers its own kernels: a program may have any number of such libraries, from here or from elsewhere. With
`rdc = True` and `device_link = False` it leaves that to a `hip_device_link`, which links the device code of all such
libraries of a program once, as `hipcc -fgpu-rdc --hip-link` does: device functions and variables are shared between them.

A library that is one source, or has `rdc = True`, is one bundle, too: it can be unbundled, archived and extracted from.

The runtime is what the setting `//rules/settings:hip_runtime` names, by default that of the ROCm that the compiler belongs
to, and `-lamdhip64` if there is none.

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
""",
    attrs = DEVICE_ATTRS | DEVICE_DEPS_ATTRS | LIBRARY_ATTRS | ARCHITECTURES_ATTRS | HOST_ATTRS | VALIDATION_ATTRS | COMPRESSION_ATTRS | {
        "device_link": attr.bool(
            default = True,
            doc = "Whether the device code is linked here. If not, with `rdc = True`, a `hip_device_link` links it together with that of other libraries; a program without one fails to link.",
        ),
        "rdc": attr.bool(
            doc = "Relocatable device code, hipcc's `-fgpu-rdc`: sources may call device functions of each other. They are compiled to bitcode, and code is generated when they are linked.",
        ),
        "srcs": attr.label_list(
            doc = "HIP sources. Each is compiled by itself. Headers among them are for these sources alone.",
            mandatory = True,
            allow_files = [".hip", ".cu", ".cpp", ".cc", ".cxx"] + HEADERS,
        ),
        "_runtime": attr.label(
            default = "//rules/settings:hip_runtime",
            providers = [CcInfo],
        ),
    },
    exec_groups = CLANG_GROUPS | PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo, OffloadImagesInfo],
    toolchains = use_cc_toolchain(),
)
