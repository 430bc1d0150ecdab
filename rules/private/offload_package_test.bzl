"""A test of packages."""

load(":messages.bzl", "name_of", "place")
load(":report.bzl", "check_covers")
load(":toolchains.bzl", "TARGET_PROGRAM_TYPE")

# A test runs in the directory of its runfiles.
_SCRIPT = """#!/bin/sh
exec {} check --package{} -- {}
"""

def _quote(text):
    return "'" + text.replace("'", "'\\''") + "'"

def _impl(ctx):
    where = place(ctx, "offload_package_test")
    files = ctx.files.srcs
    if not files:
        fail("{}: srcs: expected packages or directories of them, found targets without files: {}".format(
            where,
            ", ".join([name_of(target.label) for target in ctx.attr.srcs]) or "none",
        ))
    check_covers(ctx.attr.covers, where)
    program = ctx.toolchains[TARGET_PROGRAM_TYPE].offload_program.executable
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(
        script,
        _SCRIPT.format(
            _quote(program.short_path),
            " " + _quote("--covers=" + ",".join(ctx.attr.covers)) if ctx.attr.covers else "",
            " ".join([_quote(file.short_path) for file in files]),
        ),
        is_executable = True,
    )
    return [DefaultInfo(
        executable = script,
        runfiles = ctx.runfiles(files + [program]),
    )]

offload_package_test = rule(
    implementation = _impl,
    doc = """Tests that packages which are installed together fit each other.

The test runs `offload check --package`. It fails if the archive with the code of a library is missing, empty, cut short, for another
GPU or of another build, if code is in two places or is never found, if a registered kernel has no code, or if a wheel differs from its
`RECORD`. See [Check packages](../howto/packages.md).

```starlark
offload_package_test(
    name = "wheels_test",
    srcs = [":wheel", ":wheel_gfx942"],
    covers = ["gfx942"],
)
```

Default outputs: the test.
""",
    attrs = {
        "covers": attr.string_list(
            doc = "GPUs, such as `gfx942` and `gfx90a:xnack+`, that must find code in each library of the packages, by the rules of the HIP runtime. An unspecified feature stands for both of its states.",
        ),
        "srcs": attr.label_list(
            doc = "Packages that are installed together: wheels, zip, tar, deb and rpm files, such as targets of rules_python and rules_pkg, libraries, and directories of these.",
            mandatory = True,
            allow_files = True,
        ),
    },
    test = True,
    toolchains = [TARGET_PROGRAM_TYPE],
)
