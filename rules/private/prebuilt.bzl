"""A prebuilt `offload` program as a toolchain.

One repository has what is downloaded; another has the toolchain, which Bazel looks at in every build, and is not fetched
for that.
"""

load(":download.bzl", "PLATFORM_ATTRS", "download_attrs", "download_checked", "platform_constraints")

_PROGRAM = """load("{toolchains}", "offload_program_toolchain")

offload_program_toolchain(
    name = "program",
    program = "offload",
    visibility = ["//visibility:public"],
)
"""

def _prebuilt_program_impl(repository_ctx):
    download_checked(repository_ctx, "offload.prebuilt", archive = False, output = "offload")
    repository_ctx.file("BUILD.bazel", _PROGRAM.format(toolchains = Label("//rules:toolchains.bzl")))

prebuilt_program = repository_rule(
    implementation = _prebuilt_program_impl,
    doc = "A prebuilt `offload` program.",
    attrs = download_attrs,
)

_TOOLCHAIN = """toolchain(
    name = "program_toolchain",
    exec_compatible_with = {constraints},
    toolchain = "@{files}//:program",
    toolchain_type = "{program_type}",
)
"""

def _prebuilt_program_toolchain_impl(repository_ctx):
    repository_ctx.file("BUILD.bazel", _TOOLCHAIN.format(
        constraints = repr(platform_constraints(repository_ctx)),
        files = repository_ctx.attr.files,
        program_type = Label("//rules/toolchain:program_type"),
    ))

prebuilt_program_toolchain = repository_rule(
    implementation = _prebuilt_program_toolchain_impl,
    doc = "The toolchain of a `prebuilt_program`.",
    attrs = PLATFORM_ATTRS | {
        "files": attr.string(mandatory = True, doc = "Name of the repository with the program."),
    },
)
