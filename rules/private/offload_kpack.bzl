"""offload_kpack splits a library into host code and a kpack archive for each architecture."""

load(":architectures.bzl", "ARCHITECTURES_ATTRS", "named_architectures")
load(":images.bzl", "container_of")
load(":kpack.bzl", "KPACK_ATTRS")
load(":messages.bzl", "file_name", "flag_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

def _directory(file):
    return file.dirname

def _local(path):
    """Reports whether a path leads to a subdirectory of its start."""
    return path and not path.startswith("/") and ".." not in path.split("/")

def _offload_kpack_impl(ctx):
    where = place(ctx, "offload_kpack")
    archs = named_architectures(ctx)
    if not archs:
        fail("{}: no architectures: set offload_archs, e.g. [\"gfx942\"], or build with {}=gfx942".format(
            where,
            flag_of(ctx.attr._offload_archs.label),
        ))
    for name in ["host_dir", "kpack_dir"]:
        if not _local(getattr(ctx.attr, name)):
            fail("{}: {}: {} is not a directory below that of the target; name a directory such as .kpack".format(where, name, getattr(ctx.attr, name) or "an empty name"))
    src = container_of(ctx.attr.src, [], where, "src")
    group = ctx.attr.group or ctx.label.name
    host = ctx.actions.declare_file("{}/{}/{}".format(ctx.label.name, ctx.attr.host_dir, src.basename))
    archives = {
        arch: ctx.actions.declare_file("{}/{}/{}_{}.kpack".format(ctx.label.name, ctx.attr.kpack_dir, group, arch))
        for arch in archs
    }
    args = offload_arguments(ctx, "kpack")
    args.add("split")
    args.add(src, format = "--input=%s")
    args.add(host, format = "--output=%s")
    args.add_all(archives.values()[:1], map_each = _directory, format_each = "--kpack-dir=%s")
    args.add(group, format = "--group=%s")
    args.add(ctx.attr.kernel_name or src.basename, format = "--kernel-name=%s")
    args.add(ctx.attr.compress, format = "--scheme=%s")
    args.add_joined(archs, join_with = ",", format_joined = "--archs=%s")
    if ctx.attr.complete:
        args.add("--complete")
    run_offload(
        ctx,
        arguments = [args],
        coding = ctx.attr.compress != "none",
        inputs = [src],
        mnemonic = "OffloadKpack",
        outputs = [host] + archives.values(),
        progress_message = "Splitting " + file_name(src) + " of %{label}",
    )
    files = [host] + archives.values()
    groups = {"kpack_" + arch: depset([archive]) for arch, archive in archives.items()}
    return [
        DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files)),
        OutputGroupInfo(host = depset([host]), kpack = depset(archives.values()), **groups),
    ]

offload_kpack = rule(
    implementation = _offload_kpack_impl,
    doc = """Splits a library or program into a file without device code, and a kpack archive of device code for each architecture.

```starlark
offload_kpack(
    name = "math",
    src = ":libmath.so",
    offload_archs = ["gfx90a", "gfx942"],
)

filegroup(
    name = "math_gfx942",
    srcs = [":math"],
    output_group = "kpack_gfx942",
)
```

In this example, the library is in `math/lib` and the archives are in `math/.kpack`. The library looks for them in
`../.kpack`, so install both directories into the same parent directory. The library must have code for each of the
architectures. Code for other architectures is removed.

Default outputs: the file without device code, and the archives.

Output groups: `host`, the file without device code; `kpack`, all archives; `kpack_gfx942` and so on, the archive of one architecture.
""",
    attrs = ARCHITECTURES_ATTRS | KPACK_ATTRS | {
        "group": attr.string(
            doc = "Prefix of the archive names: `GROUP_ARCH.kpack`. The default is the name of the target.",
        ),
        "host_dir": attr.string(
            doc = "The directory of the library, relative to the directory of the target.",
            default = "lib",
        ),
        "kernel_name": attr.string(
            doc = "The name of the library in archives. The default is its file name.",
        ),
        "kpack_dir": attr.string(
            doc = "The directory of the archives, relative to the directory of the target.",
            default = ".kpack",
        ),
        "src": attr.label(
            doc = "The library or program to split.",
            mandatory = True,
            allow_files = True,
        ),
    },
    exec_groups = PROGRAM_GROUPS,
)
