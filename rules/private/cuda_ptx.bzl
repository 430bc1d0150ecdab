"""cuda_ptx compiles CUDA kernels to PTX."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("//rules:providers.bzl", "OffloadImagesInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "arch_copts_of", "arch_linkopts_of", "architectures_of", "device_linkopts_of")
load(":cc_flags.bzl", "cc_configuration")
load(":compilation.bzl", "DEVICE_CODE_ATTRS", "compile", "compiler_of", "cuda_step", "has_cuda")
load(":device_link.bzl", "device_link", "ptx_link_step")
load(":flags.bzl", "expand_flags")
load(":headers.bzl", "headers_of")
load(":images.bzl", "declare_images", "image_providers")
load(":linking.bzl", "HOST_ATTRS")
load(":messages.bzl", "file_name", "place")
load(":sources.bzl", "COMPILE_INPUT", "CXX_SOURCES", "HEADERS", "object_names", "require_sources", "source_name", "sources_of")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "CLANG_GROUPS", "COMPILE_GROUP", "DEVICE_ATTRS")

_KIND = "cuda"

def _compile(ctx, compiler, src, out, target, rdc, copts):
    compile(
        ctx,
        compiler,
        cuda_step(compiler, target, copts = copts, rdc = rdc),
        message = "Compiling {} for {}".format(file_name(src), target.target_id),
        mnemonic = "OffloadCudaCompile",
        out = out,
        src = src,
    )

def _cuda_ptx_impl(ctx):
    where = place(ctx, "cuda_ptx")
    require_sources(ctx, where, "add CUDA sources")
    targets = architectures_of(ctx, where, _KIND)
    for target in targets:
        if target.kind != _KIND or not target.triple.startswith("nvptx64-") or not target.target_id.startswith("sm_"):
            fail("{}: offload_archs: {} is not an NVIDIA GPU, such as sm_70 or sm_90a".format(where, target_ids.name(target)))
    compiler = compiler_of(ctx, cc = cc_configuration(ctx, COMPILE_GROUP), headers = headers_of(ctx))
    copts = expand_flags(ctx, "copts")
    names = object_names(ctx, sources_of(ctx))
    images = declare_images(ctx, targets, "ptx")
    for target, image in zip(targets, images):
        flags = copts + arch_copts_of(ctx, target)
        linkopts = device_linkopts_of(ctx) + arch_linkopts_of(ctx, target)
        if len(sources_of(ctx)) == 1 and not linkopts:
            _compile(ctx, compiler, sources_of(ctx)[0], image.file, target, rdc = False, copts = flags)
            continue
        objects = []
        for src, name in zip(sources_of(ctx), names):
            out = ctx.actions.declare_file("{}/{}/{}.bc".format(ctx.label.name, image.target_id, name))
            _compile(ctx, compiler, src, out, target, rdc = True, copts = flags)
            objects.append(struct(file = out, source = source_name(ctx.label, src)))
        device_link(
            ctx,
            ptx_link_step(
                ctx,
                target,
                advice = "add a definition to srcs",
                copts = compiler.language_flags("c++", True) + flags,
                cuda = has_cuda(flags),
                linkopts = linkopts,
            ),
            linked = objects,
            message = "Linking %{label} for " + image.target_id,
            mnemonic = "OffloadDeviceLink",
            out = image.file,
        )
    return image_providers(ctx, images)

cuda_ptx = rule(
    implementation = _cuda_ptx_impl,
    doc = """Compiles CUDA kernels to one PTX file (`.ptx`) per processor. The driver compiles PTX for the GPU of the machine.

The rule requires clang with `clang-nvlink-wrapper` in the same directory, but no part of CUDA. `cuModuleLoad` loads the
PTX files without further steps, and `offload_binary` combines them with device code for other GPUs. Each source is
compiled in a separate action for each processor. The sources of a target can call device functions of each other.

Sources that include CUDA's headers require the path of CUDA: `copts = ["--cuda-path=/usr/local/cuda"]`.

```starlark
cuda_ptx(
    name = "kernels_ptx",
    srcs = ["kernels.cu"],
    offload_archs = ["sm_80", "sm_90"],
)
```

Default outputs: a PTX file for each architecture.

Output groups: `sm_90` and so on, the file of one architecture.
""",
    attrs = DEVICE_ATTRS | ARCHITECTURES_ATTRS | HOST_ATTRS | DEVICE_CODE_ATTRS | {
        "srcs": attr.label_list(
            doc = "CUDA sources. Each source is compiled separately. Only the sources of this target can include headers in this list.",
            mandatory = True,
            allow_files = [".cu"] + CXX_SOURCES + HEADERS,
            flags = COMPILE_INPUT,
        ),
    },
    exec_groups = CLANG_GROUPS,
    fragments = ["cpp"],
    provides = [OffloadImagesInfo],
    toolchains = use_cc_toolchain(mandatory = False),
)
