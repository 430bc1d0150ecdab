"""A prebuilt `offload` program as a toolchain.

One repository has the download; another has the toolchain. Bazel reads the toolchain in every build without fetching the
download.
"""

load(":download.bzl", "PLATFORM_ATTRS", "download_attrs", "download_checked", "platform_constraints")
load(":release.bzl", "PROGRAMS")

def locked_program(tag):
    """Returns the download of a tag `offload.prebuilt`.

    Args:
      tag: the tag.

    Returns:
      struct with `urls` and `sha256`: those of the tag, or, if the tag has no `urls`, those of the program that was
      released with these rules.
    """
    if tag.urls:
        return struct(sha256 = tag.sha256, urls = tag.urls)
    program = PROGRAMS.get("{}-{}".format(tag.os, tag.cpu))
    if not program:
        fail("offload.prebuilt: {} has no urls, and {}: set urls and sha256, or remove the tag to build the program from source".format(
            repr(tag.name),
            "this release has no program for {} on {}, but for {}".format(tag.os, tag.cpu, ", ".join(PROGRAMS)) if PROGRAMS else "these rules are a checkout, not a release",
        ))
    if tag.sha256:
        fail("offload.prebuilt: {} has sha256 without urls: set both, or neither for the program of this release".format(repr(tag.name)))
    return struct(sha256 = program["sha256"], urls = [program["url"]])

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
