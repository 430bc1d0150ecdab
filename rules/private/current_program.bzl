"""A target with the program for the target platform, to run it."""

load(":toolchains.bzl", "TARGET_PROGRAM_TYPE")

def _current_program_impl(ctx):
    program = ctx.toolchains[TARGET_PROGRAM_TYPE].offload_program
    out = ctx.actions.declare_file("offload")
    ctx.actions.symlink(is_executable = True, output = out, target_file = program.executable)
    return [DefaultInfo(
        executable = out,
        files = depset([out]),
        runfiles = ctx.runfiles([program.executable]),
    )]

current_program = rule(
    implementation = _current_program_impl,
    executable = True,
    toolchains = [TARGET_PROGRAM_TYPE],
)
