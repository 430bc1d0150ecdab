"""offload_link links the device code of a program."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "DEVICE_LINKOPTS_ATTRS", "arch_linkopts_of", "device_linkopts_of")
load(":cc_flags.bzl", "device_flags")
load(":device_link.bzl", "link_program")
load(":flags.bzl", "LINKER_INPUTS_ATTRS")
load(":libraries.bzl", "program_providers")
load(":linking.bzl", "HOST_ATTRS", "host_triple")
load(":messages.bzl", "place")
load(":toolchains.bzl", "CLANG_GROUPS", "DEVICE_ATTRS", "LINK_GROUP")

def _objects(deps):
    """Returns the objects and archives that a program with the dependencies is linked from."""
    files = []
    inputs = depset(transitive = [dep[CcInfo].linking_context.linker_inputs for dep in deps], order = "topological")
    for linker_input in inputs.to_list():
        for library in linker_input.libraries:
            archive = library.pic_static_library or library.static_library
            if archive:
                files.append(archive)
            else:
                files.extend(library.pic_objects or library.objects)
    return files

def _offload_link_impl(ctx):
    where = place(ctx, "offload_link")
    objects = _objects(ctx.attr.deps) + ctx.files.srcs
    if not objects:
        fail("{}: nothing to link: deps and srcs have neither objects nor archives".format(where))
    out = ctx.actions.declare_file(ctx.label.name + ".register.o")
    link_program(
        ctx,
        copts = device_flags(ctx),
        host = host_triple(ctx),
        linkopts = device_linkopts_of(ctx) + arch_linkopts_of(ctx, None),
        objects = objects,
        out = out,
    )
    return program_providers(
        ctx,
        deps = ctx.attr.deps,
        objects = [out] + [file for file in ctx.files.srcs if file.extension == "o"],
        outputs = [out],
    )

offload_link = rule(
    implementation = _offload_link_impl,
    doc = """Links the device code in fat objects and archives of `deps`, from any compiler, and of `srcs`.

The rule groups the images of all inputs by target, links all targets in parallel, and creates an object that registers the
results. A `cc_binary` must depend on this target instead of on `deps`. The link of the program does not require clang.

`hip_library` and `openmp_library` link and register their own device code and do not require this rule. Use it for objects
that clang compiled with `-fgpu-rdc` or `-fopenmp --offload-arch`, including prebuilt libraries, and for device code that
calls functions of other libraries.

```starlark
cc_import(
    name = "vendor",
    static_library = "libvendor.a",  # made with hipcc -fgpu-rdc
)

offload_link(
    name = "device_code",
    deps = [":vendor"],
)

cc_binary(
    name = "app",
    srcs = ["main.cc"],
    deps = [
        ":device_code",
        "@offload_system_clang//:hip",  # the runtime
    ],
)
```

Default outputs: the object that registers the device code.
""",
    attrs = DEVICE_ATTRS | DEVICE_LINKOPTS_ATTRS | HOST_ATTRS | LINKER_INPUTS_ATTRS | {
        "deps": attr.label_list(
            doc = "Libraries with fat objects. Their dependencies are included.",
            providers = [CcInfo],
        ),
        "srcs": attr.label_list(
            doc = "Fat objects and archives. Objects become part of the program. Archives should be in `deps` instead.",
            allow_files = [".o", ".a"],
        ),
    },
    exec_groups = {LINK_GROUP: CLANG_GROUPS[LINK_GROUP]},
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
