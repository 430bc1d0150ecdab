"""A repository with a prebuilt `offload` program as a toolchain."""

load(":download.bzl", "download_attrs", "download_checked")

_BUILD_FILE = """load("{toolchains}", "offload_program_toolchain")

offload_program_toolchain(
    name = "program",
    program = "offload",
)

toolchain(
    name = "program_toolchain",
    exec_compatible_with = [{constraints}],
    toolchain = ":program",
    toolchain_type = "{program_type}",
)
"""

def _prebuilt_program_impl(repository_ctx):
    download_checked(repository_ctx, "offload.prebuilt", output = "offload")
    constraints = [Label("@platforms//os:" + repository_ctx.attr.os), Label("@platforms//cpu:" + repository_ctx.attr.cpu)]
    repository_ctx.file("BUILD.bazel", _BUILD_FILE.format(
        constraints = ", ".join([repr(str(constraint)) for constraint in constraints]),
        program_type = Label("//rules/toolchain:program_type"),
        toolchains = Label("//rules:toolchains.bzl"),
    ))

prebuilt_program = repository_rule(
    implementation = _prebuilt_program_impl,
    doc = "A prebuilt `offload` program.",
    attrs = download_attrs,
)
