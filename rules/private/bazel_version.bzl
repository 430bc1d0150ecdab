"""What depends on the release of Bazel and cannot be tested for."""

_VERSION = """\"\"\"What this release of Bazel supports.\"\"\"

# Whether concurrent requests of a multiplex worker have a sandbox each.
MULTIPLEX_SANDBOXING = {multiplex_sandboxing}
"""

_BUILD = """load("{bzl_library}", "bzl_library")

bzl_library(
    name = "version",
    srcs = ["version.bzl"],
    visibility = ["//visibility:public"],
)
"""

def has_multiplex_sandboxing(version):
    """Reports whether a release of Bazel has a sandbox for each request of a multiplex worker.

    Bazel 8.0 and 8.1 share one sandbox between concurrent requests, which can mix them up.

    Args:
      version: version of Bazel, such as `8.1.1`; empty if it is unknown.

    Returns:
      a boolean.
    """
    return version.split(".")[:2] not in [["8", "0"], ["8", "1"]]

def _bazel_version_impl(repository_ctx):
    repository_ctx.file("BUILD.bazel", _BUILD.format(bzl_library = Label("@bazel_skylib//:bzl_library.bzl")))
    repository_ctx.file("version.bzl", _VERSION.format(
        multiplex_sandboxing = has_multiplex_sandboxing(native.bazel_version),
    ))

bazel_version = repository_rule(
    implementation = _bazel_version_impl,
    doc = "The file `version.bzl`, which rules load.",
    # Otherwise, another release of Bazel in the same output base would use the file of this one.
    local = True,
)
