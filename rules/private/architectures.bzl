"""Architectures that a target is compiled for."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":arch_groups.bzl", "NATIVE", "expand_archs")
load(":flags.bzl", "expand_flags", "expand_texts")
load(":messages.bzl", "flag_of", "name_of")
load(":native.bzl", "NATIVE_ATTRS", "native_of")
load(":target_ids.bzl", "target_ids")

# The offload kind that clang uses for HIP code objects since code object version 4.
HIP_KIND = "hipv4"

_SETTING_ATTRS = {
    "_offload_archs": attr.label(
        default = "//rules/settings:offload_archs",
    ),
}

# The attributes of a rule that compiles for architectures, or keeps their code.
ARCHITECTURES_ATTRS = NATIVE_ATTRS | _SETTING_ATTRS | {
    "offload_archs": attr.string_list(
        doc = "Architectures of device code: target IDs such as `gfx942` or `gfx90a:xnack+`, groups such as `mi300`, and `native` for the GPUs of this machine; " +
              "where other targets are possible, also triples such as `x86_64-pc-linux-gnu` and entry IDs such as `openmp-amdgcn-amd-amdhsa--gfx90a`. " +
              "If empty, the value of the setting `//rules/settings:offload_archs`.",
    ),
}

_TARGETS = "targets"

# The attributes of a rule that extracts images from a file.
TARGETS_ATTRS = NATIVE_ATTRS | _SETTING_ATTRS | {
    _TARGETS: attr.string_list(
        doc = "Targets of the images to extract: target IDs such as `gfx942` or `gfx90a:xnack+`, triples such as `x86_64-pc-linux-gnu`, " +
              "entry IDs such as `openmp-amdgcn-amd-amdhsa--gfx90a`, groups such as `mi300`, and `native` for the GPUs of this machine. " +
              "If empty, the value of the setting `//rules/settings:offload_archs`.",
    ),
}

_KEYS = "Each key is a target ID (`gfx90a:xnack+`), a processor (`gfx90a`, with any features), or a triple (`amdgcn-amd-amdhsa`, `x86_64-pc-linux-gnu`)."

# The attribute of a rule that compiles its sources with other flags for some architectures.
ARCH_COPTS_ATTRS = {
    "arch_copts": attr.string_list_dict(
        doc = "Additional compiler flags for some architectures, placed after all other flags. " + _KEYS + " Keys that the target is not compiled for are ignored.",
    ),
}

# The attributes of a rule that links device code.
DEVICE_LINKOPTS_ATTRS = {
    "arch_linkopts": attr.string_list_dict(
        doc = "Additional flags for the device links of some architectures, placed after `device_linkopts`. " + _KEYS + " Keys that the target is not linked for are ignored.",
    ),
    "device_linkopts": attr.string_list(
        doc = "Additional flags for the device link, as flags of clang's driver. Compiler flags that affect code generation (`-O2`, `-mllvm OPTION`) are already passed to the link.",
    ),
}

# The key of arch_srcs for all architectures without a key, as in select.
OTHER_ARCHS = "//conditions:default"

# The attribute of a rule that compiles some sources only for some architectures.
ARCH_SRCS_ATTRS = {
    "arch_srcs": attr.string_list_dict(
        doc = "Which sources in `srcs` are only for some architectures. Each key is a target ID (`gfx90a:xnack+`) or a processor (`gfx90a`, with any features), " +
              "and its value has labels in `srcs`: `{\"gfx90a\": [\"gemm_mfma.hip\"], \"gfx942\": [\"gemm_mfma.hip\"], \"//conditions:default\": [\"gemm.hip\"]}`. " +
              "The sources of `//conditions:default` are for the architectures that no key names. Sources in no value are for all architectures.",
    ),
}

def _check_key(name, where):
    if not target_ids.is_target(name):
        fail("{}: {} is not a target: name a target ID like gfx90a:xnack+, a processor like gfx90a, or a triple".format(where, repr(name)))
    target_ids.check_name(name, where)

def _arch_flags(ctx, attribute, target):
    texts_of = getattr(ctx.attr, attribute)
    if not texts_of:
        return []
    flags = []
    for name, texts in texts_of.items():
        _check_key(name, "{}: {}".format(name_of(ctx.label), attribute))
        if target_ids.matches(name, target):
            flags.extend(expand_texts(ctx, attribute, texts))
    return flags

def arch_copts_of(ctx, target):
    """Returns the compiler flags of a rule that apply to one target only.

    Args:
      ctx: the rule's context; the rule has `ARCH_COPTS_ATTRS`.
      target: struct returned by `target_ids.complete`.

    Returns:
      list of strings for `add_flags`.
    """
    return _arch_flags(ctx, "arch_copts", target)

def device_linkopts_of(ctx):
    """Returns the flags of a rule for the device links of all targets.

    Args:
      ctx: the rule's context; the rule has `DEVICE_LINKOPTS_ATTRS`.

    Returns:
      list of strings for `add_flags`.
    """
    flags = expand_flags(ctx, "device_linkopts")
    for flag in flags:
        name, equals, value = flag.partition("=")
        if equals and target_ids.is_target(name):
            fail("{}: device_linkopts: {} is for some architectures, expected a flag for all; set arch_linkopts = {{{}: [{}]}}".format(name_of(ctx.label), repr(flag), repr(name), repr(value)))
    return flags

def arch_linkopts_of(ctx, target):
    """Returns the flags of a rule for the device link of one target only, after those of `device_linkopts_of`.

    Args:
      ctx: the rule's context; the rule has `DEVICE_LINKOPTS_ATTRS`.
      target: struct returned by `target_ids.complete`; None for the flags of all targets, as `TARGET=FLAG`.

    Returns:
      list of strings for `add_flags`.
    """
    if target:
        return _arch_flags(ctx, "arch_linkopts", target)
    flags = []
    for name, texts in ctx.attr.arch_linkopts.items():
        _check_key(name, "{}: arch_linkopts".format(name_of(ctx.label)))
        flags.extend([name + "=" + flag for flag in expand_texts(ctx, "arch_linkopts", texts)])
    return flags

def _sources_by_label(ctx, where):
    """Returns a function that returns the files in srcs of a label, which is a string as in a BUILD file."""
    files = {}
    for target in ctx.attr.srcs:
        label = target.label
        names = [str(label)]
        if label.repo_name == ctx.label.repo_name:
            names.append("//{}:{}".format(label.package, label.name))
            if label.package == ctx.label.package:
                names.extend([label.name, ":" + label.name])
            if label.package.split("/")[-1] == label.name:
                names.append("//" + label.package)
        for name in names:
            files[name] = target.files.to_list()

    def find(name):
        if name not in files:
            fail("{}: arch_srcs: {} is not in srcs: add it to srcs, which has all sources, or correct the label".format(where, repr(name)))
        return files[name]

    return find

def arch_sources_of(ctx, where, extensions):
    """Returns the sources of a rule that are only for some architectures.

    Args:
      ctx: the rule's context; the rule has `ARCH_SRCS_ATTRS` and `srcs`.
      where: prefix of error messages, `label: rule`.
      extensions: list of the extensions, such as `.hip`, of the files that can be for some architectures.

    Returns:
      a dict from a key of `arch_srcs` to a list of Files.
    """
    if not ctx.attr.arch_srcs:
        return {}
    find = _sources_by_label(ctx, where)
    sources = {}
    for key, names in ctx.attr.arch_srcs.items():
        if key != OTHER_ARCHS:
            _check_key(key, where + ": arch_srcs")
        sources[key] = [file for name in names for file in find(name)]
        for file in sources[key]:
            if "." + file.extension not in extensions:
                fail("{}: arch_srcs: {} has the extension .{}, expected {}: files of other types are not for an architecture".format(where, file.short_path, file.extension, " or ".join(extensions)))
    return sources

def sources_for(sources, by_arch, target):
    """Selects the sources for a target.

    Args:
      sources: list of Files: all sources.
      by_arch: result of `arch_sources_of`.
      target: struct returned by `target_ids.complete`; None for the sources that are for all targets.

    Returns:
      list of Files, in the order of sources.
    """
    if not by_arch:
        return sources
    keys = []
    if target:
        keys = [key for key in by_arch if key != OTHER_ARCHS and target_ids.matches(key, target)] or [OTHER_ARCHS]
    own = {file: None for key in keys for file in by_arch.get(key, [])}
    restricted = {file: None for files in by_arch.values() for file in files}
    return [file for file in sources if file in own or file not in restricted]

def _attribute_of(ctx):
    return _TARGETS if hasattr(ctx.attr, _TARGETS) else "offload_archs"

def named_architectures(ctx, default = []):
    """Returns the architectures in the attribute of a rule, or in the setting, with groups and `native` expanded.

    Args:
      ctx: the rule's context; the rule has `ARCHITECTURES_ATTRS` or `TARGETS_ATTRS`.
      default: value if the attribute and the setting are empty.

    Returns:
      list of strings.
    """
    names = getattr(ctx.attr, _attribute_of(ctx)) or ctx.attr._offload_archs[BuildSettingInfo].value or default
    if NATIVE not in names:
        return expand_archs(names)
    detected = native_of(ctx)
    if not detected.archs:
        fail("{}: {}: native: no AMD GPU was detected on this machine ({}). Name architectures, such as gfx942, or set the GPUs of this machine:\n    --repo_env=OFFLOAD_ARCHS=gfx942".format(
            name_of(ctx.label),
            _attribute_of(ctx),
            detected.missing,
        ))
    return expand_archs(names, detected.archs)

def architectures_of(ctx, where, kind, default = []):
    """Returns the targets that a rule compiles for or extracts, from its attribute or the setting.

    Args:
      ctx: the rule's context; the rule has `ARCHITECTURES_ATTRS` or `TARGETS_ATTRS`.
      where: prefix of error messages, `label: rule`.
      kind: the offload kind.
      default: targets if the attribute and the setting are empty.

    Returns:
      list of structs returned by `target_ids.complete`.
    """
    archs = named_architectures(ctx, default)
    if not archs:
        examples = ["sm_80", "sm_90"] if kind == "cuda" else ["gfx90a", "gfx942"]
        fail("{}: no architectures: set {}, e.g. {}, or build with {}={}".format(
            where,
            _attribute_of(ctx),
            examples,
            flag_of(ctx.attr._offload_archs.label),
            ",".join(examples),
        ))
    return target_ids.complete_all(kind, archs, where, _attribute_of(ctx))

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
    triple = target_ids.runtime_triple(target.triple)
    return target if triple == target.triple else target_ids.target(target.kind, triple, target.target_id)

def hip_targets(ctx, where):
    """Returns the architectures that a rule with HIP sources compiles for.

    Args:
      ctx: the rule's context; the rule has `ARCHITECTURES_ATTRS`.
      where: prefix of error messages, `label: rule`.

    Returns:
      list of structs returned by `target_ids.complete`.
    """
    named = architectures_of(ctx, where, HIP_KIND)
    if all([target.kind == HIP_KIND and target.triple == target_ids.amdgpu_triple and target.target_id for target in named]):
        return named
    targets = [_for_runtime(target) for target in named]
    seen = {}
    for target in targets:
        if target.id in seen:
            fail("{}: offload_archs names {} twice, with two spellings of its triple".format(where, target.target_id))
        seen[target.id] = True
        if target.kind != HIP_KIND or not (target_ids.is_amdgpu(target.triple) or target.portable) or not target.target_id:
            fail("{}: offload_archs: {} is not an AMD GPU: HIP code objects are for target IDs like gfx942 or gfx90a:xnack+, and amdgcnspirv".format(
                where,
                target.target_id or target_ids.entry_id(target.kind, target.triple, ""),
            ))
    return targets
