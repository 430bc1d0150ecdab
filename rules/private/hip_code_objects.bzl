"""hip_code_objects: HIP kernels to one code object per architecture."""

load("//rules:providers.bzl", "OffloadImagesInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS")
load(":cc_flags.bzl", "device_flags")
load(":clang.bzl", "CLANG_GROUPS", "DEVICE_CODE_ATTRS", "HEADERS", "headers_of")
load(":flags.bzl", "expand_flags")
load(":hip_compile.bzl", "DEVICE_DEPS_ATTRS", "hip_images")
load(":images.bzl", "image_providers")
load(":messages.bzl", "place")
load(":toolchains.bzl", "DEVICE_ATTRS")

def _hip_code_objects_impl(ctx):
    made = hip_images(
        ctx,
        copts = device_flags(ctx) + expand_flags(ctx, "copts"),
        headers = headers_of(ctx),
        linkopts = expand_flags(ctx, "device_linkopts"),
        rdc = ctx.attr.rdc,
        where = place(ctx, "hip_code_objects"),
    )
    return image_providers(ctx, made.units[0].images) + ([made.objects] if made.objects else [])

hip_code_objects = rule(
    implementation = _hip_code_objects_impl,
    doc = """Compiles HIP kernels to one code object (`.co`) per architecture.

Each source and architecture is an action of its own, and each architecture is
linked by its own action: one changed source compiles that source only, one more
architecture compiles for that one only.

The architecture `amdgcnspirv` is AMD's portable code: SPIR-V (`.spv`), which the HIP runtime compiles for a GPU that
nothing else in a bundle is for. Clang has been able to write it by itself since LLVM 22, with `llvm-link` beside it;
`device_linkopts = ["-no-use-spirv-backend"]` takes the translator `llvm-spirv` instead.

Output groups named by target ID (`gfx90a:xnack+`) hold the code object of one
architecture.
""",
    attrs = DEVICE_ATTRS | DEVICE_DEPS_ATTRS | ARCHITECTURES_ATTRS | DEVICE_CODE_ATTRS | {
        "rdc": attr.bool(
            doc = "Relocatable device code: sources may call device functions of each other. They are compiled to bitcode, and code is generated when they are linked.",
        ),
        "srcs": attr.label_list(
            doc = "HIP sources. Each is compiled by itself. Headers among them are for these sources alone.",
            mandatory = True,
            allow_files = [".hip", ".cu", ".cpp", ".cc", ".cxx"] + HEADERS,
        ),
    },
    exec_groups = CLANG_GROUPS,
    fragments = ["cpp"],
    provides = [OffloadImagesInfo],
)
