"""offload_archive creates archives with device code for several devices."""

load(":images.bzl", "bundles_in", "require_bundle")
load(":messages.bzl", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

def _offload_archive_impl(ctx):
    where = place(ctx, "offload_archive")
    bundles = []
    for dep in ctx.attr.bundles:
        require_bundle(dep, where, "bundles")
        bundles.extend(bundles_in(dep) or dep[DefaultInfo].files.to_list())
    if not bundles:
        fail("{}: bundles {}: add offload_bundle targets or files".format(where, "has targets without files" if ctx.attr.bundles else "is empty"))
    out = ctx.actions.declare_file(ctx.attr.out or "lib{}.a".format(ctx.label.name))
    args = offload_arguments(ctx, "archive")
    args.add("--check")
    args.add(out, format = "--output=%s")
    args.add_all(bundles)
    run_offload(
        ctx,
        arguments = [args],
        inputs = bundles,
        mnemonic = "OffloadArchive",
        outputs = [out],
        progress_message = "Archiving device images %{label}",
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

offload_archive = rule(
    implementation = _offload_archive_impl,
    doc = """Creates a heterogeneous device archive: a static library of device code for several targets.

`offload_unbundle(type = "a")` and clang extract the device code of a target from it. Entries that cannot be in the same bundle
fail the build.

```starlark
offload_archive(
    name = "device_library",
    bundles = [":math_fat", ":sort_fat"],
)
```

Default outputs: the archive.
""",
    attrs = {
        "bundles": attr.label_list(
            doc = "Bundles and bundled objects: `offload_bundle` and `hip_library` targets, or files. Each one becomes a member of the archive.",
            mandatory = True,
            allow_files = True,
        ),
        "out": attr.string(
            doc = "File name of the archive, relative to the package. If empty, `libNAME.a`.",
        ),
    },
    exec_groups = PROGRAM_GROUPS,
)
