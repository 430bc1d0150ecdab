"""A program that is built for the execution platform, in its configuration."""

def _exec_tool_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".exe")
    ctx.actions.symlink(output = out, target_file = ctx.executable.program, is_executable = True)
    return [DefaultInfo(
        executable = out,
        files = depset([out]),
        runfiles = ctx.attr.program[DefaultInfo].default_runfiles,
    )]

exec_tool = rule(
    implementation = _exec_tool_impl,
    doc = "A program in the configuration of tools. Flags of the build for targets, such as `--copt` or `-c opt`, do not compile it, and the libraries that it shares with other tools, again.",
    attrs = {
        "program": attr.label(
            cfg = "exec",
            doc = "The program.",
            executable = True,
            mandatory = True,
        ),
    },
    executable = True,
)
