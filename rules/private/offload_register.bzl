"""offload_register creates an object that registers device images when a program starts."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":images.bzl", "container_of", "images_of")
load(":libraries.bzl", "program_providers")
load(":linking.bzl", "HOST_ATTRS", "register_images", "registration_triple")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS")
load(":runtimes.bzl", "FAT_BINARY_RUNTIMES", "IMAGE_RUNTIMES", "RUNTIMES")

def _offload_register_impl(ctx):
    where = place(ctx, "offload_register")
    kind = ctx.attr.kind
    if kind in IMAGE_RUNTIMES:
        if ctx.attr.bundle or not ctx.attr.images:
            fail("{}: kind is {}, which registers single images: set images{}".format(where, kind, " instead of bundle" if ctx.attr.bundle else ""))
        images = images_of(ctx, where)
        for image in images:
            if image.kind != kind:
                fail("{}: images: {} has an image of kind {}, expected {}".format(where, name_of(image.label), image.kind, kind))
        files = [image.file for image in images]
    else:
        bundle = ctx.attr.bundle
        if ctx.attr.images or not bundle:
            one = "fat binary" if kind in FAT_BINARY_RUNTIMES else "offload binary"
            fail("{}: kind is {}, which registers one {}: set bundle{}".format(where, kind, one, " instead of images" if ctx.attr.images else ""))
        if OffloadBundleInfo in bundle:
            others = [id for id in bundle[OffloadBundleInfo].entry_ids if not id.startswith(kind) and not id.startswith("host-")]
            if others:
                fail("{}: bundle: {} has the entry {}, expected kind {}".format(where, name_of(bundle.label), others[0], kind))
        files = [container_of(bundle, [OffloadBundleInfo], where, "bundle")]
    out = register_images(
        ctx,
        files = files,
        host = registration_triple(ctx),
        kind = kind,
        llvm_version = None if kind in IMAGE_RUNTIMES + FAT_BINARY_RUNTIMES else ctx.attr.llvm_version,
    )
    return program_providers(ctx, deps = ctx.attr.deps, objects = [out], outputs = [out])

offload_register = rule(
    implementation = _offload_register_impl,
    doc = """Creates an object that contains device images and registers them with their runtime when a program starts.

Programs contain the device code if they, or a `cc_library` that they link, depend on this target. No compiler is required.
The images belong to the offload entries of all host objects in the program that clang compiled for relocatable device
code. For your own sources, `hip_library` does this and keeps their entries separate from those of other libraries.

The target platform is Linux on x86_64 or aarch64, or Windows on x86_64.

```starlark
offload_register(
    name = "kernels_registered",
    bundle = ":kernels_fat",
    deps = ["@offload_system_clang//:hip"],
)
```

Default outputs: the object that registers the device code.
""",
    attrs = HOST_ATTRS | {
        "bundle": attr.label(
            doc = "The file with all images, unless `kind` is `openmp`. For HIP, an `offload_bundle` or a file with a bundle; for CUDA, the output of `fatbinary`; for SYCL, the offload binary from `clang-sycl-linker`.",
            allow_files = True,
        ),
        "deps": attr.label_list(
            doc = "Libraries to link with the object, such as the runtime, which is not linked automatically.",
            providers = [CcInfo],
        ),
        "images": attr.label_list(
            doc = "The images, if `kind` is `openmp`.",
            allow_files = True,
            providers = [OffloadImagesInfo],
        ),
        "kind": attr.string(
            doc = "The runtime that loads the code: {}.".format(", ".join(["`{}`".format(kind) for kind in RUNTIMES])),
            default = "hip",
            values = RUNTIMES,
        ),
        "llvm_version": attr.int(
            doc = "If `kind` is `sycl`, the LLVM release of the SYCL runtime that loads the code. Up to 22, the runtime expects a description of each image; from 23 on, the offload binary.",
            default = 22,
            values = [22, 23, 24],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
