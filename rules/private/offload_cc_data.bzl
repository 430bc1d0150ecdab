"""offload_cc_data embeds device code as data into C and C++ programs."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":cc_flags.bzl", "cc_configuration")
load(":images.bzl", "container_of")
load(":libraries.bzl", "program_providers")
load(":linking.bzl", "HOST_ATTRS", "registration_triple")
load(":messages.bzl", "file_name", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":target_ids.bzl", "target_ids")

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_DIGITS = "0123456789"

def _symbol_of(ctx, where):
    symbol = ctx.attr.symbol or ctx.label.name
    wrong = [c for i, c in enumerate(symbol.elems()) if c not in _LETTERS and (i == 0 or c not in _DIGITS)]
    if wrong:
        fail("{}: {} {} is not a C identifier: found {}, expected letters, digits and _, no digit first; set symbol".format(
            where,
            "symbol" if ctx.attr.symbol else "name",
            repr(symbol),
            repr(wrong[0]),
        ))
    return symbol

def _source_of(ctx, where):
    src = ctx.attr.src
    if OffloadImagesInfo in src and OffloadBundleInfo not in src:
        images = src[OffloadImagesInfo].images.to_list()
        if len(images) > 1:
            fail("{}: src: {} has {} images ({}), expected one file: combine them with offload_bundle(images = [{}])".format(
                where,
                name_of(src.label),
                len(images),
                ", ".join([target_ids.name(image) for image in images]),
                repr(name_of(src.label)),
            ))
    return container_of(src, [OffloadBundleInfo], where, "src")

def _offload_cc_data_impl(ctx):
    where = place(ctx, "offload_cc_data")
    if ctx.attr.alignment < 1 or ctx.attr.alignment & (ctx.attr.alignment - 1):
        fail("{}: alignment is {}, expected a power of two, such as 4096".format(where, ctx.attr.alignment))
    symbol = _symbol_of(ctx, where)
    src = _source_of(ctx, where)

    # The header does not depend on the data, so that sources that include it are compiled in parallel to device code.
    header = ctx.actions.declare_file(ctx.attr.header or ctx.label.name + ".h")
    args = offload_arguments(ctx, "cc-data")
    args.add(symbol, format = "--symbol=%s")
    args.add(header, format = "--header=%s")
    run_offload(
        ctx,
        arguments = [args],
        inputs = [],
        mnemonic = "OffloadCcHeader",
        outputs = [header],
        progress_message = "Writing the header of %{label}",
    )

    out = ctx.actions.declare_file(ctx.label.name + ".data.o")
    args = offload_arguments(ctx, "cc-data")
    args.add(symbol, format = "--symbol=%s")
    args.add(registration_triple(ctx), format = "--triple=%s")
    args.add("--align={}".format(ctx.attr.alignment))
    args.add(out, format = "--output=%s")
    args.add(src)
    run_offload(
        ctx,
        arguments = [args],
        inputs = [src],
        mnemonic = "OffloadCcData",
        outputs = [out],
        progress_message = "Embedding " + file_name(src) + " in %{label}",
    )

    cc = cc_configuration(ctx)
    context, _ = cc_common.compile(
        actions = ctx.actions,
        cc_toolchain = cc.toolchain,
        feature_configuration = cc.features,
        name = ctx.label.name,
        public_hdrs = [header],
    )
    return program_providers(ctx, alwayslink = False, cc = cc, context = context, deps = [], objects = [out], outputs = [out, header])

offload_cc_data = rule(
    implementation = _offload_cc_data_impl,
    doc = """Embeds device code as constant data into a program, for `hipModuleLoadData`, `cuModuleLoadData` and similar functions.

The rule also generates a header. The program does not load a file at run time. The rule writes the object directly, without
a compiler.

```starlark
hip_code_objects(name = "kernels", srcs = ["gemm.hip"], offload_archs = ["gfx90a", "gfx942"])

offload_bundle(name = "kernels_fat", images = [":kernels"])

offload_cc_data(name = "kernels_data", src = ":kernels_fat")

cc_binary(name = "server", srcs = ["main.cc"], deps = [":kernels_data"])
```

<!-- not run: needs the headers of HIP; tests/flows compiles such a header and compares the data. -->
```c
#include "math/kernels_data.h"  // the path of the target's package, and its name

hipModuleLoadData(&module, kernels_data);  // kernels_data_size bytes
```

PTX is followed by a zero byte, which `cuModuleLoadData` requires. The size does not include this byte.

Default outputs: the object with the data, and the header.
""",
    attrs = HOST_ATTRS | {
        "alignment": attr.int(
            doc = "Alignment of the data in bytes, a power of two.",
            default = 4096,
        ),
        "header": attr.string(
            doc = "File name of the header, relative to the package. If empty, `NAME.h`.",
        ),
        "src": attr.label(
            doc = "The device code, a target or a file: a bundle, compressed or not, a code object, a cubin, a CUDA fat binary, PTX or SPIR-V.",
            mandatory = True,
            allow_files = True,
        ),
        "symbol": attr.string(
            doc = "Name of the data in C, an identifier: `extern const unsigned char SYMBOL[]`, and `extern const size_t SYMBOL_size`, in bytes. If empty, the name of the target.",
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
