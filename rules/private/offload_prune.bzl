"""offload_prune removes device code of some GPUs from a built file."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "named_architectures")
load(":libraries.bzl", "runfiles_of")
load(":messages.bzl", "flag_of", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

_COMPRESS_FLAGS = {
    "keep": [],
    "none": ["--decompress"],
    "zstd": ["--compress"],
}

def _prune(ctx, file, keep):
    out = ctx.actions.declare_file("{}/{}".format(ctx.label.name, file.basename))
    args = offload_arguments(ctx, "prune")
    args.add(file, format = "--input=%s")
    args.add(out, format = "--output=%s")
    args.add_joined(keep, join_with = ",", format_joined = "--keep=%s")
    args.add_all(_COMPRESS_FLAGS[ctx.attr.compress])
    if ctx.attr.ignore_missing:
        args.add("--ignore-missing")
    run_offload(
        ctx,
        arguments = args,
        coding = ctx.attr.compress != "keep",
        inputs = [file],
        mnemonic = "OffloadPrune",
        outputs = [out],
        progress_message = "Pruning %{input}",
    )
    return out

def _own_libraries(src):
    """Returns the libraries that a target itself links, without those of its dependencies."""
    return [
        library
        for linker_input in src[CcInfo].linking_context.linker_inputs.to_list()
        if linker_input.owner == src.label
        for library in linker_input.libraries
    ]

def _pruned_cc_info(ctx, src, keep, where):
    """Prunes the shared objects and archives of a library; returns these files and a CcInfo with them."""
    cc_toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    files = []
    libraries = []
    for library in _own_libraries(src):
        dynamic = library.resolved_symlink_dynamic_library or library.dynamic_library
        static = library.pic_static_library or library.static_library
        if not dynamic and not static:
            fail("{}: src: {} provides objects: set linkstatic = False on it, or name its archive or shared library".format(where, name_of(src.label)))
        pruned = {}
        if dynamic:
            pruned["dynamic_library"] = _prune(ctx, dynamic, keep)
            files.append(pruned["dynamic_library"])
        elif library.pic_static_library:
            pruned["pic_static_library"] = _prune(ctx, library.pic_static_library, keep)
            files.append(pruned["pic_static_library"])
        else:
            pruned["static_library"] = _prune(ctx, library.static_library, keep)
            files.append(pruned["static_library"])
        libraries.append(cc_common.create_library_to_link(
            actions = ctx.actions,
            alwayslink = library.alwayslink,
            cc_toolchain = cc_toolchain,
            feature_configuration = features,
            **pruned
        ))
    if not files:
        fail("{}: src: {} has no library: name the target that has it, or a file".format(where, name_of(src.label)))
    own = cc_common.create_linker_input(libraries = depset(libraries), owner = ctx.label)
    others = [
        linker_input
        for linker_input in src[CcInfo].linking_context.linker_inputs.to_list()
        if linker_input.owner != src.label
    ]
    return files, CcInfo(
        compilation_context = src[CcInfo].compilation_context,
        linking_context = cc_common.create_linking_context(linker_inputs = depset([own] + others, order = "topological")),
    )

def _offload_prune_impl(ctx):
    where = place(ctx, "offload_prune")
    keep = named_architectures(ctx)
    if not keep and ctx.attr.compress == "keep":
        fail("{}: nothing to do: set offload_archs, e.g. [\"gfx942\"], build with {}=gfx942, or set compress".format(
            where,
            flag_of(ctx.attr._offload_archs.label),
        ))
    if CcInfo in ctx.attr.src:
        files, cc_info = _pruned_cc_info(ctx, ctx.attr.src, keep, where)
        return [
            DefaultInfo(files = depset(files), runfiles = runfiles_of(ctx, files, [])),
            cc_info,
        ]
    sources = ctx.files.src
    if len(sources) != 1:
        fail("{}: src: {} has {} files, expected one; name a file, or a target with one".format(where, name_of(ctx.attr.src.label), len(sources)))
    out = _prune(ctx, sources[0], keep)
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

offload_prune = rule(
    implementation = _offload_prune_impl,
    doc = """Removes device code from a built file: a shared library, a program, an archive, an object or a bundle.

The rule keeps only the device code for `offload_archs`.

```starlark
cc_import(
    name = "rocrand_all",
    shared_library = "@rocm//:lib/librocrand.so.1",
)

offload_prune(
    name = "rocrand",
    src = ":rocrand_all",
    offload_archs = ["gfx942"],
)

cc_binary(
    name = "app",
    srcs = ["app.cc"],
    deps = [":rocrand"],
)
```

The file is otherwise unchanged: it loads, registers the same kernels, and keeps its addresses and its build ID. `src` is a
file or a target with `CcInfo`, such as `cc_import`. In the latter case, this target also provides `CcInfo`, and its
dependents link the pruned library.
""",
    attrs = ARCHITECTURES_ATTRS | {
        "compress": attr.string(
            doc = "`zstd` compresses uncompressed bundles, `none` decompresses compressed bundles, and `keep` does not change the compression.",
            default = "keep",
            values = ["keep", "none", "zstd"],
        ),
        "ignore_missing": attr.bool(
            doc = "If true, an architecture without code in the file causes a warning, and a file without device code is copied. If false, both fail the build.",
        ),
        "src": attr.label(
            doc = "The file, or a target with `CcInfo`. The rule prunes the libraries of the target itself: its shared libraries, or else its archives.",
            mandatory = True,
            allow_files = True,
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)
