"""offload_prune removes device code of some GPUs from a built file."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "named_architectures")
load(":images.bzl", "container_of")
load(":messages.bzl", "file_name", "flag_of", "name_of", "place")
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
    if ctx.attr.allow_missing:
        args.add("--ignore-missing")
    run_offload(
        ctx,
        arguments = [args],
        coding = ctx.attr.compress != "keep",
        inputs = [file],
        mnemonic = "OffloadPrune",
        outputs = [out],
        progress_message = "Pruning " + file_name(file) + " of %{label}",
    )
    return out

def _pruned_library(ctx, library, keep, where, **kwargs):
    """Prunes a library, its shared object or else its archive.

    Args:
      ctx: the rule's context.
      library: a LibraryToLink.
      keep: list of the architectures to keep.
      where: prefix of error messages, `label: rule`.
      **kwargs: arguments of `cc_common.create_library_to_link`.

    Returns:
      the pruned file and a LibraryToLink with it.
    """
    for name, file in [
        ("dynamic_library", library.resolved_symlink_dynamic_library or library.dynamic_library),
        ("pic_static_library", library.pic_static_library),
        ("static_library", library.static_library),
    ]:
        if file:
            kwargs[name] = _prune(ctx, file, keep)
            return kwargs[name], cc_common.create_library_to_link(actions = ctx.actions, alwayslink = library.alwayslink, **kwargs)
    return fail("{}: src: {} provides objects: set linkstatic = False on it, or name its archive or shared library".format(where, name_of(ctx.attr.src.label)))

def _pruned_cc_info(ctx, src, keep, where):
    """Prunes the libraries of a target itself, without those of its dependencies.

    Args:
      ctx: the rule's context.
      src: the Target, which has CcInfo.
      keep: list of the architectures to keep.
      where: prefix of error messages, `label: rule`.

    Returns:
      a struct: files, the pruned libraries; replaced, the original ones, as a dict; info, a CcInfo with the pruned ones.
    """
    cc_toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    files = []
    replaced = {}
    linker_inputs = []
    for linker_input in src[CcInfo].linking_context.linker_inputs.to_list():
        if linker_input.owner != src.label:
            linker_inputs.append(linker_input)
            continue
        libraries = []
        for library in linker_input.libraries:
            file, pruned = _pruned_library(ctx, library, keep, where, cc_toolchain = cc_toolchain, feature_configuration = features)
            files.append(file)
            libraries.append(pruned)
            for original in [library.dynamic_library, library.resolved_symlink_dynamic_library]:
                replaced[original] = None
        linker_inputs.append(cc_common.create_linker_input(
            additional_inputs = depset(linker_input.additional_inputs),
            libraries = depset(libraries),
            owner = ctx.label,
            user_link_flags = linker_input.user_link_flags,
        ))
    if not files and len(ctx.files.src) == 1:
        return None  # a program, whose CcInfo is for its dependents
    if not files:
        fail("{}: src: {} has no library: name the target that has it, or a file".format(where, name_of(src.label)))
    return struct(
        files = files,
        # Not of link_info: the pruned libraries keep the places of the original ones in the order of links.
        info = CcInfo(
            compilation_context = src[CcInfo].compilation_context,
            linking_context = cc_common.create_linking_context(linker_inputs = depset(linker_inputs, order = "topological")),
        ),
        replaced = replaced,
    )

def _runfiles_without(ctx, src, files, replaced):
    """Returns the runfiles of a target, with other files instead of some of them."""
    runfiles = src[DefaultInfo].default_runfiles
    return ctx.runfiles(
        files = files + [file for file in runfiles.files.to_list() if file not in replaced],
        root_symlinks = {link.path: link.target_file for link in runfiles.root_symlinks.to_list()},
        symlinks = {link.path: link.target_file for link in runfiles.symlinks.to_list()},
    )

def _offload_prune_impl(ctx):
    where = place(ctx, "offload_prune")
    keep = named_architectures(ctx)
    if not keep and ctx.attr.compress == "keep":
        fail("{}: nothing to do: set offload_archs, e.g. [\"gfx942\"], build with {}=gfx942, or set compress".format(
            where,
            flag_of(ctx.attr._offload_archs.label),
        ))
    pruned = _pruned_cc_info(ctx, ctx.attr.src, keep, where) if CcInfo in ctx.attr.src else None
    if pruned:
        return [
            DefaultInfo(
                files = depset(pruned.files),
                runfiles = _runfiles_without(ctx, ctx.attr.src, pruned.files, pruned.replaced),
            ),
            pruned.info,
        ]
    out = _prune(ctx, container_of(ctx.attr.src, [], where, "src"), keep)
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
dependents link the pruned library, with the `linkopts` and `data` of `src`.

Default outputs: the pruned files.
""",
    attrs = ARCHITECTURES_ATTRS | {
        "allow_missing": attr.bool(
            doc = "If true, an architecture without code in the file causes a warning, and a file without device code is copied. If false, both fail the build.",
        ),
        "compress": attr.string(
            doc = "`zstd` compresses uncompressed bundles, `none` decompresses compressed bundles, and `keep` does not change the compression.",
            default = "keep",
            values = ["keep", "none", "zstd"],
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
