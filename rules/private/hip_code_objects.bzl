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

```starlark
hip_code_objects(
    name = "kernels",
    srcs = ["gemm.hip", "scan.hip"],
    hdrs = ["tile.h"],
    arch_srcs = {
        "mfma.hip": "gfx90a gfx942",
        "no_mfma.hip": "!gfx90a !gfx942",
    },
    offload_archs = ["gfx90a", "gfx942", "gfx1100"],
)
```
""",
    attrs = DEVICE_ATTRS | DEVICE_DEPS_ATTRS | ARCHITECTURES_ATTRS | DEVICE_CODE_ATTRS | {
        "arch_srcs": attr.label_keyed_string_dict(
            doc = "More HIP sources, which are compiled for some architectures alone: the target IDs or processors of each, with spaces between them " +
                  "(`{\"gemm_mfma.hip\": \"gfx90a gfx942\"}`), or those that it is not for, each after `!` (`{\"gemm.hip\": \"!gfx90a !gfx942\"}`).",
            allow_files = [".hip", ".cu", ".cpp", ".cc", ".cxx"],
        ),
        "rdc": attr.bool(
            doc = "Relocatable device code: sources may call device functions of each other. They are compiled to bitcode, and code is generated when they are linked.",
        ),
        "srcs": attr.label_list(
            doc = "HIP sources. Each is compiled by itself, for all architectures. Headers among them are for these sources alone.",
            allow_files = [".hip", ".cu", ".cpp", ".cc", ".cxx"] + HEADERS,
        ),
    },
    exec_groups = CLANG_GROUPS,
    fragments = ["cpp"],
    provides = [OffloadImagesInfo],
)
