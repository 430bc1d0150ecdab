"""A placeholder for a library that is missing on this machine."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":messages.bzl", "name_of")

def _missing_library_impl(ctx):
    fail("{}: {}".format(name_of(ctx.label), ctx.attr.message))

missing_library = rule(
    implementation = _missing_library_impl,
    doc = "A missing library. Targets that depend on it fail with a message that gives the reason.",
    attrs = {
        "message": attr.string(mandatory = True, doc = "What is missing, and what to do."),
    },
    provides = [CcInfo],
)
