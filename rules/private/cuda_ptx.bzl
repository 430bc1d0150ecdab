"""cuda_ptx compiles CUDA kernels to PTX."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("//rules:providers.bzl", "OffloadImagesInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "arch_copts_of", "architectures_of")
load(":cc_flags.bzl", "cc_configuration", "device_flags", "headers_files")
load(":clang.bzl", "CLANG_GROUPS", "COMPILE_GROUP", "DEVICE_CODE_ATTRS", "HEADERS", "LINK_GROUP", "add_headers", "clang_arguments", "compilation_id", "headers_of", "object_names", "run_clang", "sources_of")
load(":device_link.bzl", "code_generation_flags", "flags_for")
load(":flags.bzl", "add_flags", "expand_flags")
load(":images.bzl", "declare_images", "image_providers")
load(":linking.bzl", "HOST_ATTRS", "linux_triple")
load(":messages.bzl", "place")
load(":ptx.bzl", "ptx_feature")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "DEVICE_ATTRS", "device_toolchain_of")

_KIND = "cuda"

def _has_cuda(copts):
    return any([flag.startswith("--cuda-path=") for flag in copts])

def _ptx_flags(copts, processor):
    feature = ptx_feature(processor)
    return ["--cuda-feature=" + feature] if feature and not _has_cuda(copts) else []

# Without these, the link would again unroll loops that the compilations have already unrolled.
_UNROLL_ONCE = [word for option in ["-unroll-max-count=1", "-unroll-full-max-count=1"] for word in ["-Xlinker", "-plugin-opt=" + option]]

def _compile(ctx, toolchain, cc, headers, src, out, target, rdc, copts):
    processor = target.target_id
    args = clang_arguments(ctx)
    args.add_all(["-x", "cuda"])
    args.add_all([linux_triple(ctx)], format_each = "--target=%s")
    args.add_all(toolchain.compile_flags)
    args.add_all(toolchain.mode_flags[ctx.var["COMPILATION_MODE"]])
    if not _has_cuda(copts):
        args.add_all(["-nocudainc", "-nocudalib"])
    args.add(compilation_id(ctx, src), format = "-cuid=%s")
    args.add("--cuda-device-only")
    args.add_all(["-fgpu-rdc", "-emit-llvm", "-c"] if rdc else ["-S"])
    args.add(processor, format = "--offload-arch=%s")
    args.add_all(_ptx_flags(copts, processor))
    add_headers(args, headers, out)
    add_flags(args, copts, out)
    args.add("-o", out)
    args.add(src)
    run_clang(
        ctx,
        arguments = args,
        group = COMPILE_GROUP,
        headers = headers.headers,
        inputs = depset([src], transitive = [headers.files, headers_files(cc)]),
        mnemonic = "OffloadCudaCompile",
        out = out,
        progress_message = "Compiling {} for {}".format(src.short_path, processor),
        toolchain = toolchain,
    )

def _link(ctx, toolchain, objects, target, image, copts):
    args = clang_arguments(ctx)
    args.add("--target=nvptx64-nvidia-cuda")
    args.add(image.target_id, format = "-march=%s")
    args.add_all(_ptx_flags(copts, image.target_id))
    generation = code_generation_flags(toolchain.compile_flags + toolchain.mode_flags[ctx.var["COMPILATION_MODE"]] + copts, target)
    add_flags(args, generation, image.file)
    args.add_all(["-flto", "-Wl,--lto-emit-asm", "-Wno-unused-command-line-argument"])
    if not any(["-unroll-" in flag for flag in generation]):
        args.add_all(_UNROLL_ONCE)
    args.add_all(toolchain.link_flags)
    add_flags(args, flags_for(target, expand_flags(ctx, "device_linkopts")), image.file)
    args.add("-o", image.file)
    args.add_all(objects, before_each = "-Xlinker")
    run_clang(
        ctx,
        arguments = args,
        group = LINK_GROUP,
        inputs = depset(objects),
        mnemonic = "OffloadDeviceLink",
        out = image.file,
        progress_message = "Linking %{label} for " + image.target_id,
        toolchain = toolchain,
    )

def _cuda_ptx_impl(ctx):
    where = place(ctx, "cuda_ptx")
    if not sources_of(ctx):
        fail("{}: srcs is empty: add CUDA sources".format(where))
    targets = architectures_of(ctx, where, _KIND)
    for target in targets:
        if target.kind != _KIND or not target.triple.startswith("nvptx64-") or not target.target_id.startswith("sm_"):
            fail("{}: offload_archs: {} is not an NVIDIA GPU, such as sm_70 or sm_90a".format(where, target_ids.name(target)))
    compiler = device_toolchain_of(ctx, COMPILE_GROUP)
    linker = device_toolchain_of(ctx, LINK_GROUP)
    cc = cc_configuration(ctx, mandatory = False)
    copts = device_flags(ctx, cc, parses_host = True) + expand_flags(ctx, "copts")
    headers = headers_of(ctx)
    names = object_names(ctx, sources_of(ctx))
    images = declare_images(ctx, targets, "ptx")
    for target, image in zip(targets, images):
        flags = copts + arch_copts_of(ctx, target)
        if len(sources_of(ctx)) == 1 and not ctx.attr.device_linkopts:
            _compile(ctx, compiler, cc, headers, sources_of(ctx)[0], image.file, target, rdc = False, copts = flags)
            continue
        objects = []
        for src, name in zip(sources_of(ctx), names):
            out = ctx.actions.declare_file("{}/{}/{}.bc".format(ctx.label.name, image.target_id, name))
            _compile(ctx, compiler, cc, headers, src, out, target, rdc = True, copts = flags)
            objects.append(out)
        _link(ctx, linker, objects, target, image, flags)
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
            allow_files = [".cu", ".cpp", ".cc", ".cxx"] + HEADERS,
        ),
    },
    exec_groups = CLANG_GROUPS,
    fragments = ["cpp"],
    provides = [OffloadImagesInfo],
    toolchains = use_cc_toolchain(mandatory = False),
)
