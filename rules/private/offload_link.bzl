"""offload_link links the device code of a program."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "DEVICE_LINKOPTS_ATTRS", "device_linkopts_of")
load(":cc_flags.bzl", "device_flags")
load(":device_link.bzl", "program_link_flags")
load(":flags.bzl", "LINKER_INPUTS_ATTRS", "add_flags")
load(":libraries.bzl", "runfiles_of")
load(":linking.bzl", "HOST_ATTRS", "host_triple", "linked_cc_info")
load(":messages.bzl", "place")
load(":toolchains.bzl", "CLANG_GROUPS", "DEVICE_ATTRS", "LINK_GROUP", "PROGRAM_TYPE", "device_toolchain_of")

def _resources(_os, _inputs):
    # The links of all targets run in parallel.
    return {"cpu": 2, "memory": 1000}

def _objects(cc_info):
    """Returns the objects and archives that a program with the CcInfo is linked from."""
    files = []
    for linker_input in cc_info.linking_context.linker_inputs.to_list():
        for library in linker_input.libraries:
            archive = library.pic_static_library or library.static_library
            if archive:
                files.append(archive)
            else:
                files.extend(library.pic_objects or library.objects)
    return files

def _offload_link_impl(ctx):
    where = place(ctx, "offload_link")
    linked = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    inputs = _objects(linked) + ctx.files.srcs
    if not inputs:
        fail("{}: nothing to link: deps and srcs have neither objects nor archives".format(where))
    toolchain = device_toolchain_of(ctx, LINK_GROUP)
    out = ctx.actions.declare_file(ctx.label.name + ".register.o")
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add("link")
    args.add(toolchain.clang.executable, format = "--clang=%s")
    args.add(host_triple(ctx), format = "--triple=%s")
    args.add(out, format = "--output=%s")
    args.add("--advice=add the library that defines it to deps, or the object to srcs; for symbols that begin with __kmpc_, add LLVM's device runtime to device_linkopts")

    # Here, the objects of libraries are in archives, and no other object refers to their members.
    args.add("--whole-archive")
    add_flags(args, program_link_flags(ctx, toolchain, copts = device_flags(ctx), linkopts = device_linkopts_of(ctx, None)), out, format_each = "--device-arg=%s")
    args.add_all(inputs)
    ctx.actions.run(
        arguments = [args],
        exec_group = LINK_GROUP,
        executable = ctx.exec_groups[LINK_GROUP].toolchains[PROGRAM_TYPE].offload_program,
        execution_requirements = {"supports-path-mapping": "1"},
        inputs = depset(inputs + ctx.files.additional_linker_inputs, transitive = [toolchain.link_files]),
        mnemonic = "OffloadLink",
        outputs = [out],
        progress_message = "Linking device code %{label}",
        resource_set = _resources,
        tools = [toolchain.clang],
    )
    return [
        DefaultInfo(files = depset([out]), runfiles = runfiles_of(ctx, [], ctx.attr.deps)),
        coverage_common.instrumented_files_info(ctx, dependency_attributes = ["deps"]),
        linked_cc_info(
            ctx,
            compilation_context = linked.compilation_context,
            deps = [dep[CcInfo] for dep in ctx.attr.deps],
            objects = [out] + [file for file in ctx.files.srcs if file.extension == "o"],
        ),
    ]

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
