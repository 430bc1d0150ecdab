"""hip_code_objects: HIP kernels to one code object per architecture."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadImagesInfo", "offload_image")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "DEVICE_TYPE", "device_toolchain")

# The kind that clang gives HIP code objects since code object version 4.
_KIND = "hipv4"
_TRIPLE = "amdgcn-amd-amdhsa-"

def _architectures(ctx, where):
    archs = ctx.attr.offload_archs or ctx.attr._offload_archs[BuildSettingInfo].value
    if not archs:
        fail("{}: no architectures: set offload_archs, e.g. [\"gfx90a\", \"gfx942\"], or build with --{}=gfx90a,gfx942".format(
            where,
            ctx.attr._offload_archs.label,
        ))
    result = []
    for arch in archs:
        canonical = target_ids.canonical(arch, where)
        if canonical in result:
            fail("{}: offload_archs names {} twice".format(where, canonical))
        result.append(canonical)
    return result

def _compilation_id(ctx, src):
    # The same for every architecture and machine, different for every source:
    # clang's own choice hashes paths and options.
    name = "{} {}".format(ctx.label, src.short_path)
    return "%x_%x" % (hash(name) + (1 << 31), hash(name[::-1]) + (1 << 31))

def _compile(ctx, toolchain, headers, src, arch):
    name = src.basename[:-len(src.extension) - 1]
    extension = "bc" if ctx.attr.rdc else "o"
    out = ctx.actions.declare_file("{}/{}/{}.{}".format(ctx.label.name, arch.replace(":", "_"), name, extension))
    args = ctx.actions.args()
    args.add_all(["-x", "hip", "--offload-device-only", "--no-gpu-bundle-output"])
    args.add(arch, format = "--offload-arch=%s")
    args.add_all(toolchain.compile_flags)
    args.add(_compilation_id(ctx, src), format = "-cuid=%s")
    if ctx.attr.rdc:
        args.add_all(["-fgpu-rdc", "-emit-llvm", "-c"])
    else:
        # The driver links what it assembles; to keep the link an action of its
        # own it is told to stop before, and the compiler to write an object.
        args.add_all(["-S", "-Xclang", "-emit-obj"])
    args.add_all(headers.defines, format_each = "-D%s")
    args.add_all(headers.quote_includes, before_each = "-iquote")
    args.add_all(headers.includes, before_each = "-I")
    args.add_all(headers.system_includes, before_each = "-isystem")
    args.add_all(ctx.attr.copts)
    args.add("-o", out)
    args.add(src)
    ctx.actions.run(
        arguments = [args],
        executable = toolchain.clang,
        execution_requirements = {"supports-path-mapping": "1"},
        inputs = depset([src], transitive = [headers.files, toolchain.files]),
        mnemonic = "OffloadHipCompile",
        outputs = [out],
        progress_message = "Compiling {} for {}".format(src.short_path, arch),
        toolchain = DEVICE_TYPE,
    )
    return out

def _link(ctx, toolchain, objects, arch):
    out = ctx.actions.declare_file("{}/{}.co".format(ctx.label.name, arch.replace(":", "_")))
    args = ctx.actions.args()
    args.add("--target=amdgcn-amd-amdhsa")
    args.add(arch, format = "-mcpu=%s")
    args.add_all(toolchain.link_flags)
    args.add_all(ctx.attr.linkopts)
    args.add("-o", out)
    args.add_all(objects)
    ctx.actions.run(
        arguments = [args],
        executable = toolchain.clang,
        execution_requirements = {"supports-path-mapping": "1"},
        inputs = depset(objects, transitive = [toolchain.files]),
        mnemonic = "OffloadDeviceLink",
        outputs = [out],
        progress_message = "Linking %{label} for " + arch,
        toolchain = DEVICE_TYPE,
    )
    return out

def _headers(ctx):
    """What the sources may include, from hdrs and from the CcInfo of deps."""
    compilation = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    return struct(
        defines = depset(ctx.attr.defines, transitive = [compilation.defines]),
        files = depset(ctx.files.hdrs, transitive = [compilation.headers]),
        includes = compilation.includes,
        quote_includes = depset(
            [".", ctx.bin_dir.path] if not ctx.label.workspace_root else [ctx.label.workspace_root, ctx.bin_dir.path + "/" + ctx.label.workspace_root],
            transitive = [compilation.quote_includes],
        ),
        system_includes = compilation.system_includes,
    )

def _hip_code_objects_impl(ctx):
    where = "{}: hip_code_objects".format(ctx.label)
    archs = _architectures(ctx, where)
    toolchain = device_toolchain(ctx)
    headers = _headers(ctx)

    images = []
    groups = {}
    for arch in archs:
        objects = [_compile(ctx, toolchain, headers, src, arch) for src in ctx.files.srcs]
        code_object = _link(ctx, toolchain, objects, arch)
        images.append(offload_image(
            file = code_object,
            kind = _KIND,
            label = ctx.label,
            target_id = arch,
            triple = _TRIPLE,
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
    attrs = {
        "copts": attr.string_list(
            doc = "More compiler flags.",
        ),
        "defines": attr.string_list(
            doc = "Preprocessor definitions, `NAME` or `NAME=VALUE`.",
        ),
        "deps": attr.label_list(
            doc = "Libraries whose headers the sources include.",
            providers = [CcInfo],
        ),
        "hdrs": attr.label_list(
            doc = "Headers that the sources include, by their path in the workspace.",
            allow_files = True,
        ),
        "linkopts": attr.string_list(
            doc = "More flags of the device link.",
        ),
        "offload_archs": attr.string_list(
            doc = "Target IDs such as `gfx942` or `gfx90a:xnack+`. If empty, the setting `//rules/settings:offload_archs`.",
        ),
        "rdc": attr.bool(
            doc = "Relocatable device code: sources may call device functions of each other. They are compiled to bitcode, and code is generated when they are linked.",
        ),
        "srcs": attr.label_list(
            doc = "HIP sources. Each is compiled by itself.",
            mandatory = True,
            allow_files = [".hip", ".cu", ".cpp", ".cc", ".cxx"],
        ),
        "_offload_archs": attr.label(
            default = "//rules/settings:offload_archs",
        ),
    },
    provides = [OffloadImagesInfo],
    toolchains = [config_common.toolchain_type(DEVICE_TYPE, mandatory = False)],
)
