"""Architectures that a target is compiled for."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":arch_groups.bzl", "NATIVE", "expand_archs")
load(":flags.bzl", "expand_texts")
load(":messages.bzl", "flag_of", "name_of")
load(":native.bzl", "OffloadNativeInfo", "native_for")
load(":target_ids.bzl", "target_ids")

# The offload kind that clang uses for HIP code objects since code object version 4.
HIP_KIND = "hipv4"

# The attributes of a rule that compiles for architectures.
ARCHITECTURES_ATTRS = {
    "offload_archs": attr.string_list(
        doc = "Architectures of device code: target IDs such as `gfx942` or `gfx90a:xnack+`, groups such as `mi300`, and `native` for the GPUs of this machine; " +
              "where other targets are possible, also triples such as `x86_64-pc-linux-gnu` and entry IDs such as `openmp-amdgcn-amd-amdhsa--gfx90a`. " +
              "If empty, the value of the setting `//rules/settings:offload_archs`.",
    ),
    "_native": attr.label(
        default = native_for,
        providers = [OffloadNativeInfo],
    ),
    "_offload_archs": attr.label(
        default = "//rules/settings:offload_archs",
    ),
}

# The attribute of a rule that compiles its sources with other flags for some architectures.
ARCH_COPTS_ATTRS = {
    "arch_copts": attr.string_list_dict(
        doc = "Additional compiler flags for some architectures, placed after all other flags. Each key is a target ID (`gfx90a:xnack+`), a processor " +
              "(`gfx90a`, with any features), or a triple (`x86_64-pc-linux-gnu`). Keys that the target is not compiled for are ignored.",
    ),
}

# The attribute of a rule that compiles some HIP sources only for some architectures.
ARCH_SRCS_ATTRS = {
    "arch_srcs": attr.label_keyed_string_dict(
        doc = "Additional HIP sources that are compiled only for some architectures. The value is a space-separated list of target IDs or processors " +
              "(`{\"gemm_mfma.hip\": \"gfx90a gfx942\"}`), or of those to exclude, each with the prefix `!` (`{\"gemm.hip\": \"!gfx90a !gfx942\"}`).",
        allow_files = [".hip", ".cu", ".cpp", ".cc", ".cxx"],
    ),
}

def arch_copts_of(ctx, target):
    """Returns the flags of a rule that apply to one target only.

    Args:
      ctx: the rule's context; the rule has `ARCH_COPTS_ATTRS`.
      target: struct returned by `target_ids.complete`.

    Returns:
      list of strings for `add_flags`.
    """
    flags = []
    for name, copts in ctx.attr.arch_copts.items():
        if not target_ids.is_target(name):
            fail("{}: arch_copts: {} is not a target: name a target ID like gfx90a:xnack+, a processor like gfx90a, or a triple".format(
                name_of(ctx.label),
                repr(name),
            ))
        target_ids.check_name(name, "{}: arch_copts".format(name_of(ctx.label)))
        if target_ids.matches(name, target):
            flags.extend(expand_texts(ctx, "arch_copts", copts))
    return flags

def arch_sources_of(ctx, target, where):
    """Returns the sources of a rule that are for one target only.

    Args:
      ctx: the rule's context; the rule has `ARCH_SRCS_ATTRS`.
      target: struct returned by `target_ids.complete`.
      where: prefix of error messages, `label: rule`.

    Returns:
      list of Files.
    """
    files = []
    for src, text in ctx.attr.arch_srcs.items():
        names = text.split(" ")
        excluding = [name for name in names if name.startswith("!")]
        if len(excluding) not in (0, len(names)):
            fail("{}: arch_srcs: {}: {} combines included and excluded (!) architectures: use one of the two".format(where, name_of(src.label), repr(text)))
        own = [name.removeprefix("!") for name in names]
        for name in own:
            if not target_ids.is_target(name):
                fail("{}: arch_srcs: {}: {} is not a target: name a target ID like gfx90a:xnack+ or a processor like gfx90a, with one space between them".format(where, name_of(src.label), repr(name)))
            target_ids.check_name(name, "{}: arch_srcs".format(where))
        if any([target_ids.matches(name, target) for name in own]) != bool(excluding):
            files.extend(src.files.to_list())
    return files

def named_architectures(ctx, default = []):
    """Returns the architectures in the attribute of a rule, or in the setting, with groups and `native` expanded.

    Args:
      ctx: the rule's context; the rule has `ARCHITECTURES_ATTRS`.
      default: value if the attribute and the setting are empty.

    Returns:
      list of strings.
    """
    names = ctx.attr.offload_archs or ctx.attr._offload_archs[BuildSettingInfo].value or default
    if NATIVE not in names:
        return expand_archs(names)
    detected = ctx.attr._native[OffloadNativeInfo]
    if not detected.archs:
        fail("{}: offload_archs: native: no AMD GPU was detected on this machine ({}). Name architectures, such as gfx942, or set the GPUs of this machine:\n    --repo_env=OFFLOAD_ARCHS=gfx942".format(
            name_of(ctx.label),
            detected.missing,
        ))
    return expand_archs(names, detected.archs)

def architectures_of(ctx, where, kind, default = []):
    """Returns the targets that a rule compiles for, from its attribute or the setting.

    Args:
      ctx: the rule's context; the rule has `ARCHITECTURES_ATTRS`.
      where: prefix of error messages, `label: rule`.
      kind: the offload kind.
      default: targets if the attribute and the setting are empty.

    Returns:
      list of structs returned by `target_ids.complete`.
    """
    archs = named_architectures(ctx, default)
    if not archs:
        fail("{}: no architectures: set offload_archs, e.g. [\"gfx90a\", \"gfx942\"], or build with {}=gfx90a,gfx942".format(
            where,
            flag_of(ctx.attr._offload_archs.label),
        ))
    return target_ids.complete_all(kind, archs, where, "offload_archs")

def check_compiler(toolchain, targets, where):
    """Fails if the device compiler does not support an AMD GPU.

    Args:
      toolchain: result of `device_toolchain_of`.
      targets: list of structs returned by `target_ids.complete`.
      where: prefix of error messages, `label: rule`.
    """
    for target in targets:
        processor = target.target_id.split(":")[0]
        if not toolchain.processors or not processor.startswith("gfx") or processor in toolchain.processors:
            continue
        fail("{}: offload_archs: {} is a processor that the device compiler{} does not support: take a newer one ({}), or leave {} out".format(
            where,
            processor,
            ", clang {},".format(toolchain.release) if toolchain.release else "",
            "docs/toolchains.md",
            target.target_id,
        ))

def _for_runtime(target):
    """Returns the target with the triple that HIP's runtime looks for."""
    return struct(kind = target.kind, target_id = target.target_id, triple = target_ids.runtime_triple(target.triple))

def hip_targets(ctx, where):
    """Returns the architectures that a rule with HIP sources compiles for.

    Args:
      ctx: the rule's context; the rule has `ARCHITECTURES_ATTRS`.
      where: prefix of error messages, `label: rule`.

    Returns:
      list of structs returned by `target_ids.complete`.
    """
    targets = [_for_runtime(target) for target in architectures_of(ctx, where, HIP_KIND)]
    seen = {}
    for target in targets:
        id = target_ids.entry_id(target.kind, target.triple, target.target_id)
        if id in seen:
            fail("{}: offload_archs names {} twice, with two spellings of its triple".format(where, target.target_id))
        seen[id] = True
        if target.kind != HIP_KIND or not (target_ids.is_amdgpu(target.triple) or target_ids.is_portable(target)) or not target.target_id:
            fail("{}: offload_archs: {} is not an AMD GPU: HIP code objects are for target IDs like gfx942 or gfx90a:xnack+, and amdgcnspirv".format(
                where,
                target.target_id or target_ids.entry_id(target.kind, target.triple, ""),
            ))
    return targets
