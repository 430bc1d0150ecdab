"""hip_code_objects: HIP kernels to one code object per architecture."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadImagesInfo", "offload_image")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "architectures_of")
load(":clang.bzl", "CLANG_GROUPS", "COMPILE_GROUP", "LINK_GROUP", "add_headers", "add_rocm", "clang_arguments", "compilation_id", "headers_of", "object_names", "run_clang")
load(":messages.bzl", "place")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "device_toolchain_of")

# The kind that clang gives HIP code objects since code object version 4.
_KIND = "hipv4"

def _compile(ctx, toolchain, headers, src, name, arch):
    out = ctx.actions.declare_file("{}/{}/{}.{}".format(
        ctx.label.name,
        target_ids.file_name(arch),
        name,
        "bc" if ctx.attr.rdc else "o",
    ))
    args = clang_arguments(ctx)
    args.add_all(["-x", "hip", "--offload-device-only", "--no-gpu-bundle-output"])
    args.add(arch, format = "--offload-arch=%s")
    args.add_all(toolchain.compile_flags)
    args.add_all(toolchain.mode_flags[ctx.var["COMPILATION_MODE"]])
    add_rocm(args, toolchain)
    args.add(compilation_id(ctx, src), format = "-cuid=%s")
    if ctx.attr.rdc:
        args.add_all(["-fgpu-rdc", "-emit-llvm", "-c"])
    else:
        # The driver links what it assembles; to keep the link an action of its
        # own it is told to stop before, and the compiler to write an object.
        args.add_all(["-S", "-Xclang", "-emit-obj"])
    add_headers(args, headers, out)
    args.add_all(ctx.attr.copts)
    args.add("-o", out)
    args.add(src)
    run_clang(
        ctx,
        arguments = args,
        group = COMPILE_GROUP,
        inputs = depset([src], transitive = [headers.files]),
        mnemonic = "OffloadHipCompile",
        out = out,
        progress_message = "Compiling {} for {}".format(src.short_path, arch),
        toolchain = toolchain,
    )
    return out

def _link(ctx, toolchain, objects, arch):
    out = ctx.actions.declare_file("{}/{}.co".format(ctx.label.name, target_ids.file_name(arch)))
    args = clang_arguments(ctx)
    args.add("--target=amdgcn-amd-amdhsa")
    args.add(arch, format = "-mcpu=%s")
    args.add_all(toolchain.link_flags)
    args.add_all(ctx.attr.linkopts)
    args.add("-o", out)
    args.add_all(objects)
    run_clang(
        ctx,
        arguments = args,
        group = LINK_GROUP,
        inputs = depset(objects),
        mnemonic = "OffloadDeviceLink",
        out = out,
        progress_message = "Linking %{label} for " + arch,
        toolchain = toolchain,
    )
    return out

def _hip_code_objects_impl(ctx):
    where = place(ctx, "hip_code_objects")
    if not ctx.files.srcs:
        fail("{}: srcs is empty: give it the HIP sources".format(where))
    targets = architectures_of(ctx, where, _KIND)
    for target in targets:
        if target.kind != _KIND or not target.triple.startswith("amdgcn-"):
            fail("{}: offload_archs: {} is not an AMD GPU: HIP code objects are for target IDs like gfx942 or gfx90a:xnack+".format(
                where,
                target.target_id or target_ids.entry_id(target.kind, target.triple, ""),
            ))
    compiler = device_toolchain_of(ctx, COMPILE_GROUP)
    linker = device_toolchain_of(ctx, LINK_GROUP)
    headers = headers_of(ctx)
    names = object_names(ctx, ctx.files.srcs)

    images = []
    groups = {}
    for target in targets:
        arch = target.target_id
        objects = [
            _compile(ctx, compiler, headers, src, name, arch)
            for src, name in zip(ctx.files.srcs, names)
        ]
        code_object = _link(ctx, linker, objects, arch)
        images.append(offload_image(
            file = code_object,
            kind = _KIND,
            label = ctx.label,
            target_id = arch,
            triple = target.triple,
        ))
        groups[arch] = depset([code_object])

    return [
        DefaultInfo(files = depset([image.file for image in images])),
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(**groups),
    ]

hip_code_objects = rule(
    implementation = _hip_code_objects_impl,
    doc = """Compiles HIP kernels to one code object (`.co`) per architecture.

Each source and architecture is an action of its own, and each architecture is
linked by its own action: one changed source compiles that source only, one more
architecture compiles for that one only.

Output groups named by target ID (`gfx90a:xnack+`) hold the code object of one
architecture.
""",
    attrs = ARCHITECTURES_ATTRS | {
        "copts": attr.string_list(
            doc = "More compiler flags.",
        ),
        "defines": attr.string_list(
            doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`.",
        ),
        "deps": attr.label_list(
            doc = "Libraries whose headers the sources include, such as `cc_library` targets with `hdrs` alone.",
            providers = [CcInfo],
        ),
        "hdrs": attr.label_list(
            doc = "Headers that the sources include, by their path in the workspace.",
            allow_files = True,
        ),
        "includes": attr.string_list(
            doc = "Folders of this package that the compiler looks in for headers, `.` for the package itself.",
        ),
        "linkopts": attr.string_list(
            doc = "More flags of the device link, which clang's driver takes.",
        ),
        "rdc": attr.bool(
            doc = "Relocatable device code: sources may call device functions of each other. They are compiled to bitcode, and code is generated when they are linked.",
        ),
        "srcs": attr.label_list(
            doc = "HIP sources. Each is compiled by itself.",
            mandatory = True,
            allow_files = [".hip", ".cu", ".cpp", ".cc", ".cxx"],
        ),
    },
    exec_groups = CLANG_GROUPS,
    provides = [OffloadImagesInfo],
)
