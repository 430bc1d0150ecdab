"""offload_wheel splits a Python wheel into a host wheel and wheels with device code."""

load(":architectures.bzl", "ARCHITECTURES_ATTRS", "named_architectures")
load(":kpack.bzl", "KPACK_ATTRS")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

def _offload_wheel_impl(ctx):
    where = place(ctx, "offload_wheel")
    wheels = [file for file in ctx.files.src if file.extension == "whl"]
    if len(wheels) != 1:
        fail("{}: src: {} has {} wheels, expected one file .whl; name the target of a py_wheel, or a file".format(where, name_of(ctx.attr.src.label), len(wheels)))
    if ctx.attr.device_name and not ctx.attr.device_name.endswith("-device"):
        fail("{}: device_name: found {}, expected a name that ends in -device; write {}-device".format(where, ctx.attr.device_name, ctx.attr.device_name))
    out = ctx.actions.declare_directory(ctx.label.name)
    args = offload_arguments(ctx, "wheel")
    args.add("split")
    args.add(wheels[0], format = "--input=%s")
    args.add_all([out], expand_directories = False, format_each = "--output-dir=%s")
    args.add(ctx.attr.compress, format = "--scheme=%s")
    args.add_joined(named_architectures(ctx), join_with = ",", format_joined = "--archs=%s", omit_if_empty = True)
    for family, archs in ctx.attr.families.items():
        if not archs:
            fail("{}: families: {} is empty; name its GPUs, e.g. [\"gfx942\"]".format(where, family))
        args.add_joined(archs, join_with = ",", format_joined = "--family={}=%s".format(family))
    if ctx.attr.device_name:
        args.add(ctx.attr.device_name, format = "--device-name=%s")
    if ctx.attr.complete:
        args.add("--complete")
    run_offload(
        ctx,
        arguments = [args],
        coding = True,
        inputs = wheels,
        mnemonic = "OffloadWheel",
        outputs = [out],
        progress_message = "Splitting the wheel of %{label}",
    )
    return DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))

offload_wheel = rule(
    implementation = _offload_wheel_impl,
    doc = """Splits a Python wheel into a wheel without device code, and a wheel of device code for each GPU.

<!-- not run: needs a py_wheel; tests/equality builds such a target. -->
```starlark
offload_wheel(
    name = "dist",
    src = ":math_wheel",
    offload_archs = ["gfx90a", "gfx942"],
)
```

In this example, `math_wheel` is a `py_wheel` or a file `.whl`. The output is a directory with the wheels, as
`offload wheel split` writes them: pip installs `math[gfx942]` from it. The host wheel has the file name of `src`.

If `offload_archs` and the setting are empty, the code for all GPUs is kept. Otherwise, the code for other GPUs is removed.

Default outputs: the directory with the wheels.
""",
    attrs = ARCHITECTURES_ATTRS | KPACK_ATTRS | {
        "device_name": attr.string(
            doc = "Name of the projects of device wheels, without the GPU. It ends in `-device`. The default is the name of the wheel and `-device`.",
        ),
        "families": attr.string_list_dict(
            doc = "GPUs that share a wheel, by the name of their family: `{\"mi300\": [\"gfx942\", \"gfx950\"]}`.",
        ),
        "src": attr.label(
            doc = "The wheel to split: a file `.whl`, or a target with one, such as a `py_wheel`.",
            mandatory = True,
            allow_files = True,
        ),
    },
    exec_groups = PROGRAM_GROUPS,
)
