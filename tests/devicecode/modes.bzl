"""Device code of targets, built with a compilation mode of its own."""

load("//rules:providers.bzl", "OffloadImagesInfo")

def _mode_impl(_settings, attr):
    return {"//command_line_option:compilation_mode": attr.mode}

_mode = transition(
    implementation = _mode_impl,
    inputs = [],
    outputs = ["//command_line_option:compilation_mode"],
)

def _in_mode_impl(ctx):
    links = []
    for dep in ctx.attr.targets:
        if OffloadImagesInfo in dep:
            files = [image.file for image in dep[OffloadImagesInfo].images.to_list()]
        else:
            files = dep.files.to_list()
        for file in files:
            link = ctx.actions.declare_file("{}/{}/{}".format(ctx.label.name, dep.label.name, file.short_path.removeprefix("{}/{}/".format(dep.label.package, dep.label.name))))
            ctx.actions.symlink(output = link, target_file = file)
            links.append(link)
    return [DefaultInfo(files = depset(links), runfiles = ctx.runfiles(links))]

in_mode = rule(
    implementation = _in_mode_impl,
    doc = "The images of targets, or the files of those that have none, built with a compilation mode, as `NAME/TARGET/FILE`.",
    attrs = {
        "mode": attr.string(mandatory = True, values = ["fastbuild", "dbg", "opt"]),
        "targets": attr.label_list(mandatory = True, cfg = _mode),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
)
