"""hip_device_link links the device code of all HIP libraries of a program."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":architectures.bzl", "DEVICE_LINKOPTS_ATTRS", "arch_linkopts_of", "device_linkopts_of")
load(":bundling.bzl", "bundle_images")
load(":cc_flags.bzl", "device_flags")
load(":compression.bzl", "COMPRESSION_ATTRS", "compression_of")
load(":debug_info.bzl", "DEBUG_INFO_ATTRS")
load(":device_link.bzl", "hip_link_step")
load(":flags.bzl", "LINKER_INPUTS_ATTRS", "expand_flags")
load(":hip_compile.bzl", "hip_link")
load(":images.bzl", "image_groups")
load(":libraries.bzl", "program_providers")
load(":linking.bzl", "HOST_ATTRS", "host_triple", "register_images")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "CLANG_GROUPS", "DEVICE_ATTRS")
load(":validation.bzl", "VALIDATION_ATTRS", "validate_bundle")

HipUnlinkedInfo = provider(
    doc = "HIP libraries with unlinked device code in the dependencies of a target.",
    fields = {
        "libraries": "depset of structs: label, code (tuple of structs with id, file (LLVM bitcode) and source), host (tuple of host objects).",
    },
)

# Identifies the offload entries of such libraries, which are registered together.
DEVICE_LINK_SUFFIX = "hip_device_link"

def device_link_symbol(label):
    """Returns the symbol that linkers report as undefined if a program has a library and no hip_device_link.

    Args:
      label: label of the library.

    Returns:
      the name of a symbol.
    """
    return "hip_device_link of {} (hip_library with device_link = False)".format(name_of(label))

def _unlinked_impl(target, ctx):
    if HipUnlinkedInfo in target:
        below = [dep[HipUnlinkedLibrariesInfo].libraries for dep in _below(ctx.rule.attr)]
        return [HipUnlinkedLibrariesInfo(libraries = depset(transitive = [target[HipUnlinkedInfo].libraries] + below))]
    return [HipUnlinkedLibrariesInfo(libraries = depset(
        transitive = [dep[HipUnlinkedLibrariesInfo].libraries for dep in _below(ctx.rule.attr)],
    ))]

_BELOW = ["actual", "deps", "device_deps", "implementation_deps"]

def _below(attr):
    found = []
    for name in _BELOW:
        value = getattr(attr, name, None)
        for dep in value if type(value) == "list" else [value]:
            if type(dep) == "Target" and HipUnlinkedLibrariesInfo in dep:
                found.append(dep)
    return found

HipUnlinkedLibrariesInfo = provider(
    doc = "The result of the aspect of hip_device_link.",
    fields = {"libraries": "depset as in HipUnlinkedInfo."},
)

_unlinked = aspect(
    implementation = _unlinked_impl,
    attr_aspects = _BELOW,
)

def _targets_of(libraries, where):
    """Returns the entry IDs that the libraries are compiled for; fails if they differ."""
    first = libraries[0]
    ids = {object.id: None for object in first.code}
    for library in libraries:
        own = {object.id: None for object in library.code}
        if sorted(own) != sorted(ids):
            fail("{}: deps: {} is compiled for {}, and {} for {}: set the same offload_archs for all".format(
                where,
                name_of(first.label),
                ", ".join([target_ids.complete("", id, where).target_id for id in ids]),
                name_of(library.label),
                ", ".join([target_ids.complete("", id, where).target_id for id in own]),
            ))
    return [target_ids.complete("", id, where) for id in ids]

def _hip_device_link_impl(ctx):
    where = place(ctx, "hip_device_link")
    libraries = depset(transitive = [dep[HipUnlinkedLibrariesInfo].libraries for dep in ctx.attr.deps]).to_list()
    if not libraries:
        fail("{}: nothing to link: no hip_library in the dependencies has rdc = True and device_link = False".format(where))
    images = []
    copts = device_flags(ctx) + expand_flags(ctx, "copts")
    linkopts = device_linkopts_of(ctx)
    for target in _targets_of(libraries, where):
        objects = [object for library in libraries for object in library.code if object.id == target.id]
        step = hip_link_step(
            ctx,
            target,
            advice = "add a definition to one of the libraries, or add the library that has one to deps; it needs rdc = True and device_link = False",
            copts = copts,
            generates = any([object.file.extension == "bc" for object in objects]),
            linkopts = linkopts + arch_linkopts_of(ctx, target),
        )
        folder = ctx.label.name + "/" + target_ids.file_name(target.target_id)
        images.append(hip_link(ctx, step, objects = objects, path = folder, target = target))
    bundle = bundle_images(
        ctx,
        compression = compression_of(ctx, where),
        host = host_triple(ctx),
        images = images,
        out = ctx.actions.declare_file(ctx.label.name + ".hipfb"),
        where = where,
    )
    registration = register_images(
        ctx,
        define = [device_link_symbol(library.label) for library in libraries],
        files = [bundle.file],
        kind = "hip",
        own_entries = [file for library in libraries for file in library.host],
        suffix = DEVICE_LINK_SUFFIX,
    )
    return program_providers(ctx, deps = ctx.attr.deps, objects = [registration], outputs = [registration]) + [
        bundle,
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(
            _validation = depset(validate_bundle(ctx, bundle = bundle, images = images, linked = True, where = where)),
            bundle = depset([bundle.file]),
            **image_groups(images)
        ),
    ]

hip_device_link = rule(
    implementation = _hip_device_link_impl,
    doc = """Links the device code of all `hip_library` dependencies with `rdc = True` and `device_link = False`, once.

This corresponds to `hipcc -fgpu-rdc --hip-link`. Kernels can call device functions of other libraries. Each `__device__`
or `__constant__` variable exists once, and `hipMemcpyToSymbol` sets it for all libraries. A `cc_binary` depends on this
target instead of on `deps`:

```starlark
hip_library(name = "math", srcs = ["math.hip"], rdc = True, device_link = False)

hip_library(name = "solver", srcs = ["solver.hip"], rdc = True, device_link = False, deps = [":math"])

hip_device_link(name = "device_code", deps = [":solver"])

cc_binary(name = "server", srcs = ["main.cc"], deps = [":device_code"])
```

Dependencies through `cc_library` targets are included. If a program contains such a library and no `hip_device_link`, or
two of them, the link fails with an error that names the library.

Default outputs: the object that registers the device code.

Output groups: `bundle`, the bundle; `gfx942` and so on, the images of one architecture; `debug_info`, see `split_debug_info`; `_validation`, the [checks](../howto/validation.md).
""",
    attrs = DEVICE_ATTRS | DEBUG_INFO_ATTRS | DEVICE_LINKOPTS_ATTRS | HOST_ATTRS | VALIDATION_ATTRS | COMPRESSION_ATTRS | LINKER_INPUTS_ATTRS | {
        "copts": attr.string_list(
            doc = "Compiler flags that affect code generation, such as `-O2` or `-mllvm OPTION`. Others have no effect in a link.",
        ),
        "deps": attr.label_list(
            doc = "The libraries, or targets that depend on them.",
            aspects = [_unlinked],
            mandatory = True,
            providers = [CcInfo],
        ),
    },
    exec_groups = CLANG_GROUPS | PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo, OffloadBundleInfo, OffloadImagesInfo],
    toolchains = use_cc_toolchain(),
)
