"""The two toolchain rules and how other rules reach them."""

PROGRAM_TYPE = Label("//rules/toolchain:program_type")
DEVICE_TYPE = Label("//rules/toolchain:device_type")

def _offload_program_toolchain_impl(ctx):
    return [platform_common.ToolchainInfo(
        offload_program = ctx.attr.program[DefaultInfo].files_to_run,
    )]

offload_program_toolchain = rule(
    implementation = _offload_program_toolchain_impl,
    doc = "The `offload` program that makes and takes apart bundles.",
    attrs = {
        "program": attr.label(
            doc = "The program: an executable that takes the verbs of `offload` and `--persistent_worker`.",
            mandatory = True,
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
    },
)

def _offload_device_toolchain_impl(ctx):
    if ctx.attr.missing:
        return [platform_common.ToolchainInfo(missing = ctx.attr.missing)]
    if not ctx.executable.clang:
        fail("{}: offload_device_toolchain: clang is not set: give the label of a clang that has the AMDGPU target".format(ctx.label))
    return [platform_common.ToolchainInfo(
        clang = ctx.executable.clang,
        compile_flags = ctx.attr.compile_flags,
        files = depset(ctx.files.files),
        link_flags = ctx.attr.link_flags,
        missing = "",
    )]

offload_device_toolchain = rule(
    implementation = _offload_device_toolchain_impl,
    doc = "A clang with lld that compiles and links device code.",
    attrs = {
        "clang": attr.label(
            doc = "The clang driver. It finds `ld.lld` and its resource directory beside itself, among `files`.",
            executable = True,
            allow_single_file = True,
            cfg = "exec",
        ),
        "compile_flags": attr.string_list(
            doc = "Flags of every device compilation, before those of the target.",
        ),
        "files": attr.label_list(
            doc = "What clang needs beside itself: the linker, resource headers, device libraries.",
            allow_files = True,
            cfg = "exec",
        ),
        "link_flags": attr.string_list(
            doc = "Flags of every device link.",
        ),
        "missing": attr.string(
            doc = "When there is no compiler: the message that a rule which needs one fails with.",
        ),
    },
)

def device_toolchain(ctx, exec_group = None):
    """The device compiler of a rule, or a failure that says what to install.

    Args:
      ctx: the rule's context.
      exec_group: name of the exec group that names `DEVICE_TYPE`, if not the rule itself.

    Returns:
      the `ToolchainInfo` of an `offload_device_toolchain`.
    """
    toolchains = ctx.exec_groups[exec_group].toolchains if exec_group else ctx.toolchains
    toolchain = toolchains[DEVICE_TYPE]
    if not toolchain:
        fail("{}: no device compiler is registered. Add to MODULE.bazel: register_toolchains(\"@offload_system_clang//:all\"), see docs/toolchains.md".format(ctx.label))
    if toolchain.missing:
        fail("{}: {}".format(ctx.label, toolchain.missing))
    return toolchain
