"""device_bitcode_library builds device functions as LLVM bitcode, which compilations link."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadDeviceBitcodeInfo", "offload_bitcode")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "ARCH_COPTS_ATTRS", "ARCH_SRCS_ATTRS", "OTHER_ARCHS", "arch_copts_of", "arch_sources_of", "check_compiler", "hip_targets", "sources_for")
load(":cc_flags.bzl", "cc_configuration")
load(":compilation.bzl", "BITCODE_LANGUAGES", "bitcode_step", "compile", "compiler_of", "merge_step")
load(":flags.bzl", "COMPILER_INPUTS_ATTRS", "expand_flags")
load(":headers.bzl", "EXPORTED_HEADERS_ATTRS", "HEADER_DEPS_ATTRS", "headers_of")
load(":linking.bzl", "HOST_ATTRS")
load(":messages.bzl", "file_name", "name_of", "place")
load(":sources.bzl", "COMPILE_INPUT", "HEADERS", "object_names", "require_sources", "sources_of")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "CLANG_GROUPS", "COMPILE_GROUP", "DEVICE_ATTRS")

_BITCODE = "bc"

def _compile(ctx, compiler, src, name, target):
    out = ctx.actions.declare_file("{}/{}/{}.{}".format(ctx.label.name, target_ids.file_name(target.target_id), name, _BITCODE))
    compile(
        ctx,
        compiler,
        bitcode_step(
            compiler,
            target,
            copts = expand_flags(ctx, "copts") + arch_copts_of(ctx, target),
            language = BITCODE_LANGUAGES[src.extension],
        ),
        message = "Compiling {} for {}".format(file_name(src), target.target_id),
        mnemonic = "OffloadBitcodeCompile",
        out = out,
        src = src,
    )
    return out

def _merge(ctx, compiler, files, target):
    """Merges bitcode files into one."""
    if len(files) == 1:
        return files[0]
    folder = target_ids.file_name(target.target_id) if target else "any"
    out = ctx.actions.declare_file("{}/{}.{}".format(ctx.label.name, folder, _BITCODE))
    compile(
        ctx,
        compiler,
        merge_step(target, files[1:]),
        message = "Merging the bitcode of %{label}" + (" for " + target.target_id if target else ""),
        mnemonic = "OffloadBitcodeMerge",
        out = out,
        src = files[0],
    )
    return out

def _device_bitcode_library_impl(ctx):
    where = place(ctx, "device_bitcode_library")
    require_sources(ctx, where, "add sources or bitcode")
    by_arch = arch_sources_of(ctx, where, ["." + _BITCODE])
    made = [file for file in sources_for(sources_of(ctx), by_arch, None) if file.extension == _BITCODE]
    sources = [file for file in sources_of(ctx) if file.extension != _BITCODE]
    for_some = []
    for key, files in by_arch.items():
        if key == OTHER_ARCHS:
            fail("{}: arch_srcs: {} is not an AMD GPU: name each target that the files are for, such as gfx90a".format(where, repr(key)))
        arch = target_ids.complete("hipv4", key, where + ": arch_srcs").target_id
        if not arch:
            fail("{}: arch_srcs: {} is not an AMD GPU, expected a target ID such as gfx90a".format(where, repr(key)))
        for_some.extend([offload_bitcode(file = file, label = ctx.label, target_id = arch) for file in files])

    bitcode = []
    headers = headers_of(ctx)
    if sources:
        compiler = compiler_of(ctx, cc = cc_configuration(ctx, COMPILE_GROUP), headers = headers)
        names = object_names(ctx, sources)
        targets = hip_targets(ctx, where)
        check_compiler(compiler.clang, targets, where)
        for target in targets:
            files = [_compile(ctx, compiler, src, name, target) for src, name in zip(sources, names)]
            bitcode.append(offload_bitcode(
                file = _merge(ctx, compiler, files + made, target),
                label = ctx.label,
                target_id = target.target_id,
            ))
    elif made:
        compiler = compiler_of(ctx) if len(made) > 1 else None
        bitcode.append(offload_bitcode(file = _merge(ctx, compiler, made, None), label = ctx.label))
    deps = [dep[OffloadDeviceBitcodeInfo].bitcode for dep in ctx.attr.device_deps]

    # Each file precedes its dependencies.
    own = depset(bitcode + for_some, transitive = deps, order = "topological")
    files = [entry.file for entry in bitcode + for_some]
    groups = {}
    for entry in bitcode + for_some:
        groups.setdefault(entry.target_id or "any", []).append(entry.file)
    return [
        DefaultInfo(files = depset(files)),
        OffloadDeviceBitcodeInfo(bitcode = own),
        CcInfo(compilation_context = headers.context),
        OutputGroupInfo(**{name: depset(files) for name, files in groups.items()}),
    ]

device_bitcode_library = rule(
    implementation = _device_bitcode_library_impl,
    doc = """Builds a device library: device functions that kernels of other targets call. These targets list it in `device_deps`.

`hip_code_objects`, `hip_library` and `openmp_library` link it in the same way as clang links ROCm's device libraries: into
each source, during its compilation. Functions that the source calls become part of it and can be inlined; all others are
left out. `rdc` is not required. Use this rule for sources in OpenCL C and C, and for bitcode from another compiler.

```starlark
device_bitcode_library(
    name = "math",
    srcs = ["scale.c", "sum.cl", "vendor/table.bc"],
    hdrs = ["math.h"],
    offload_archs = ["gfx90a", "gfx942"],
)

hip_code_objects(
    name = "kernels",
    srcs = ["kernels.hip"],
    device_deps = [":math"],
    offload_archs = ["gfx90a", "gfx942"],
)
```

HIP sources declare functions of C and OpenCL C as `extern "C" __device__ float scale(float);`. Each source that calls a
function gets its own copy of the library's variables. The host cannot set these variables.

Default outputs: the bitcode for each architecture.

Output groups: `gfx942` and so on, the bitcode for one architecture; `any`, that for all.
""",
    attrs = DEVICE_ATTRS | ARCHITECTURES_ATTRS | ARCH_COPTS_ATTRS | ARCH_SRCS_ATTRS | COMPILER_INPUTS_ATTRS | EXPORTED_HEADERS_ATTRS | HEADER_DEPS_ATTRS | HOST_ATTRS | {
        "copts": attr.string_list(
            doc = "Additional compiler flags. They do not apply to `.ll` and `.bc`.",
        ),
        "device_deps": attr.label_list(
            doc = "Other `device_bitcode_library` targets whose functions the sources call. They are also linked into dependents.",
            providers = [OffloadDeviceBitcodeInfo],
        ),
        "srcs": attr.label_list(
            doc = "Sources: C (`.c`), OpenCL C (`.cl`), LLVM IR (`.ll`), HIP (`.hip`, `.cu`), and bitcode (`.bc`) for any AMD GPU. " +
                  "They can call functions of each other. Only the sources of this target can include headers in this list. If all sources are `.bc` files, the target is for all architectures. In `arch_srcs`, only `.bc` files are possible.",
            mandatory = True,
            allow_files = [".c", ".cl", ".ll", ".hip", ".cu", ".bc"] + HEADERS,
            flags = COMPILE_INPUT,
        ),
    },
    exec_groups = {COMPILE_GROUP: CLANG_GROUPS[COMPILE_GROUP]},
    fragments = ["cpp"],
    provides = [CcInfo, OffloadDeviceBitcodeInfo],
    toolchains = use_cc_toolchain(mandatory = False),
)

def bitcode_for(device_deps, target, where):
    """Returns the bitcode that compilations for a target link.

    Args:
      device_deps: list of Targets; those without `OffloadDeviceBitcodeInfo` are ignored.
      target: struct returned by `target_ids.complete`: an AMD GPU.
      where: prefix of error messages, `label: rule`.

    Returns:
      list of Files; each one precedes its dependencies.
    """
    if not device_deps:
        return []
    entries = depset(
        transitive = [dep[OffloadDeviceBitcodeInfo].bitcode for dep in device_deps if OffloadDeviceBitcodeInfo in dep],
        order = "topological",
    ).to_list()
    by_label = {}
    for entry in entries:
        by_label.setdefault(entry.label, []).append(entry)
    files = []
    for label, own in by_label.items():
        exact = [entry.file for entry in own if entry.target_id == target.target_id]
        serving = exact or [entry.file for entry in own if entry.target_id and target_ids.matches(entry.target_id, target)]
        found = serving + [entry.file for entry in own if not entry.target_id]
        if not found:
            fail("{}: device_deps: {} is not compiled for {}, but for {}: set the same offload_archs for both".format(
                where,
                name_of(label),
                target.target_id,
                ", ".join({entry.target_id: None for entry in own}),
            ))
        files.extend(found)
    return files
