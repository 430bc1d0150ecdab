"""hip_code_objects compiles HIP kernels to one code object per architecture."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("//rules:providers.bzl", "OffloadImagesInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "ARCH_SRCS_ATTRS")
load(":cc_flags.bzl", "cc_configuration")
load(":compilation.bzl", "DEVICE_CODE_ATTRS", "compiler_of")
load(":debug_info.bzl", "DEBUG_INFO_ATTRS")
load(":flags.bzl", "expand_flags")
load(":headers.bzl", "headers_of")
load(":hip_compile.bzl", "DEVICE_DEPS_ATTRS", "hip_images", "hip_sources")
load(":images.bzl", "image_providers")
load(":linking.bzl", "HOST_ATTRS")
load(":lto.bzl", "LTO_ATTRS", "lto_of")
load(":messages.bzl", "place")
load(":sources.bzl", "CODE_OBJECTS", "CODE_SOURCES", "COMPILE_INPUT", "HEADERS", "HIP_SOURCES")
load(":toolchains.bzl", "CLANG_GROUPS", "COMPILE_GROUP", "DEVICE_ATTRS")

def _hip_code_objects_impl(ctx):
    where = place(ctx, "hip_code_objects")
    compiler = compiler_of(ctx, cc = cc_configuration(ctx, COMPILE_GROUP), headers = headers_of(ctx))
    made = hip_images(
        ctx,
        compiler,
        copts = expand_flags(ctx, "copts"),
        device_only = True,
        lto = lto_of(ctx, where, compiler.clang, "lto_hip_device_rdc" if ctx.attr.rdc else "lto_hip_device"),
        rdc = ctx.attr.rdc,
        sources = hip_sources(ctx),
        where = where,
    )
    return image_providers(ctx, made.units[0].images) + ([made.objects] if made.objects else [])

hip_code_objects = rule(
    implementation = _hip_code_objects_impl,
    doc = """Compiles HIP kernels to one code object (`.co`) per architecture.

Each source is compiled in a separate action for each architecture, and each
architecture is linked in a separate action. A changed source recompiles only that
source. An additional architecture only adds actions for that architecture.

The code is that of `clang --offload-device-only`. Without `rdc`, that never uses link-time optimization by default: set `lto`.

The architecture `amdgcnspirv` is AMD's portable code, SPIR-V (`.spv`). The HIP runtime compiles it for GPUs that no other
entry of the bundle supports. As with clang's driver, LLVM's backend generates it, or the translator `llvm-spirv` (LLVM 22 and
older): the build fails before the compilation if the translator is missing. `arch_linkopts = {"amdgcnspirv": ["-use-spirv-backend"]}`
selects the backend of LLVM 22, which does not compile everything that HIP's headers declare, `-no-use-spirv-backend` the translator.

```starlark
hip_code_objects(
    name = "kernels",
    srcs = ["gemm.hip", "mfma.hip", "no_mfma.hip"],
    hdrs = ["tile.h"],
    arch_srcs = {
        "gfx90a": ["mfma.hip"],
        "gfx942": ["mfma.hip"],
        "//conditions:default": ["no_mfma.hip"],
    },
    offload_archs = ["gfx90a", "gfx942", "gfx1100"],
)
```

Kernels can also be assembly, OpenCL C, LLVM IR or objects, alone or together with HIP. The device libraries of the compiler's ROCm are
linked into OpenCL C. Other targets cannot call functions of `.s`, `.S` and `.o` through `device_deps`.

```starlark
hip_code_objects(
    name = "attention",
    srcs = ["attention_gfx942.s", "attention_gfx950.s"],
    arch_srcs = {
        "gfx942": ["attention_gfx942.s"],
        "gfx950": ["attention_gfx950.s"],
    },
    offload_archs = ["gfx942", "gfx950"],
)
```

Default outputs: a code object (`.co`, or `.spv` for `amdgcnspirv`) for each architecture.

Output groups: `gfx942` and so on, the code object of one architecture; `debug_info`, see `split_debug_info`.
""",
    attrs = DEVICE_ATTRS | DEBUG_INFO_ATTRS | DEVICE_DEPS_ATTRS | LTO_ATTRS | ARCHITECTURES_ATTRS | ARCH_SRCS_ATTRS | HOST_ATTRS | DEVICE_CODE_ATTRS | {
        "rdc": attr.bool(
            doc = "Whether to compile to relocatable device code, so that sources can call device functions of each other. Sources are compiled to bitcode, and the device link generates code.",
        ),
        "srcs": attr.label_list(
            doc = "Sources: HIP, assembly of AMD GPUs (`.s`, with the preprocessor `.S`), OpenCL C (`.cl`), LLVM IR (`.ll`), bitcode (`.bc`), and objects (`.o`), " +
                  "which are linked as they are. Each source is compiled separately, for all architectures; `arch_srcs` names the architectures of assembly and objects. " +
                  "Only the sources of this target can include headers in this list.",
            mandatory = True,
            allow_files = HIP_SOURCES + CODE_SOURCES + CODE_OBJECTS + HEADERS,
            flags = COMPILE_INPUT,
        ),
    },
    exec_groups = CLANG_GROUPS,
    fragments = ["cpp"],
    provides = [OffloadImagesInfo],
    toolchains = use_cc_toolchain(mandatory = False),
)
