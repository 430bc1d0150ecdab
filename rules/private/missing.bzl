"""What stands where something is that this machine lacks."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":messages.bzl", "name_of")

def _missing_library_impl(ctx):
    fail("{}: {}".format(name_of(ctx.label), ctx.attr.message))

missing_library = rule(
    implementation = _missing_library_impl,
    doc = "A library that cannot be had: whoever depends on it learns why.",
    attrs = {
        "message": attr.string(mandatory = True, doc = "What lacks, and what to do."),
    },
    provides = [CcInfo],
)
