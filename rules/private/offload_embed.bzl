"""offload_embed embeds device images into host objects, for a later device link."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadBinaryInfo")
load(":libraries.bzl", "program_providers")
load(":messages.bzl", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

def _offload_embed_impl(ctx):
    where = place(ctx, "offload_embed")
    if not ctx.attr.images:
        fail("{}: images is empty: add offload_binary targets".format(where))
    out = ctx.actions.declare_file(ctx.label.name + ".o")
    binaries = [dep[OffloadBinaryInfo].file for dep in ctx.attr.images]
    args = offload_arguments(ctx, "embed")
    args.add(ctx.file.src, format = "--input=%s")
    args.add(out, format = "--output=%s")
    args.add_all(binaries)
    run_offload(
        ctx,
        arguments = [args],
        inputs = [ctx.file.src] + binaries,
        mnemonic = "OffloadEmbed",
        outputs = [out],
        progress_message = "Embedding device images %{label}",
    )
    return program_providers(ctx, deps = ctx.attr.deps, objects = [out], outputs = [out])

offload_embed = rule(
    implementation = _offload_embed_impl,
    doc = """Embeds offload binaries into a host object, in the same section as clang (`.llvm.offloading`).

The result is a fat object. `offload_link` and clang link the device code in it when they link a program.

```starlark
offload_embed(
    name = "fat_object",
    src = "host.o",
    images = [":kernels_package"],
)

offload_link(
    name = "device_code",
    deps = [":fat_object"],
)
```

Default outputs: the fat object.
""",
    attrs = {
        "deps": attr.label_list(
            doc = "Libraries to link with the object.",
            providers = [CcInfo],
        ),
        "images": attr.label_list(
            doc = "The `offload_binary` targets to embed.",
            mandatory = True,
            providers = [OffloadBinaryInfo],
        ),
        "src": attr.label(
            doc = "The host object, which must be position-independent.",
            mandatory = True,
            allow_single_file = [".o", ".obj"],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
