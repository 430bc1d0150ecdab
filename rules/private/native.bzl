"""The GPUs of this machine."""

load(":arch_groups.bzl", "NATIVE", "expand_archs")

OffloadNativeInfo = provider(
    doc = "The GPUs of the machine on which Bazel runs.",
    fields = {
        "archs": "list of target IDs, empty without a GPU.",
        "missing": "why no GPU was found.",
    },
)

def _native_archs_impl(ctx):
    return [OffloadNativeInfo(archs = ctx.attr.archs, missing = ctx.attr.missing)]

native_archs = rule(
    implementation = _native_archs_impl,
    doc = "The detected GPUs.",
    attrs = {
        "archs": attr.string_list(doc = "Target IDs of the GPUs, without duplicates."),
        "missing": attr.string(doc = "Why no GPU was found."),
    },
    provides = [OffloadNativeInfo],
)

_ARCHS_SETTING = "//rules/settings:offload_archs"
_WANTED = "//rules/private:native_archs_wanted"

# The attributes with architectures: of rules that compile for them, and of rules that extract images.
_ARCHS_ATTRIBUTES = ["offload_archs", "targets"]

def _wanted(settings, attr):
    names = [name for attribute in _ARCHS_ATTRIBUTES for name in getattr(attr, attribute, None) or []]
    return {_WANTED: NATIVE in (names or settings[_ARCHS_SETTING])}

# Only a target that names them depends on the GPUs of this machine. A transition knows the value of an attribute with a
# select; for the default of an attribute that is a function, Bazel would compute all possible values, of which it permits 64.
_if_wanted = transition(
    implementation = _wanted,
    inputs = [_ARCHS_SETTING],
    outputs = [_WANTED],
)

# The attribute of a rule with architectures.
NATIVE_ATTRS = {
    "_native": attr.label(
        cfg = _if_wanted,
        default = "//rules/settings:native_archs",
        providers = [OffloadNativeInfo],
    ),
}

def native_of(ctx):
    """Returns the GPUs of this machine, if the target names them.

    Args:
      ctx: the rule's context; the rule has `NATIVE_ATTRS`.

    Returns:
      an OffloadNativeInfo.
    """
    native = ctx.attr._native

    # Up to Bazel 8, an attribute with a transition is a list.
    return (native[0] if type(native) == "list" else native)[OffloadNativeInfo]

_DETECTED = "detected"

# A build setting with the GPUs of this machine as its default value.
NATIVE_SETTING = str(Label("@offload_native//:" + _DETECTED))

_ARCHS = """\"\"\"The GPUs of this machine.\"\"\"

# Target IDs, each once; empty if no GPU was detected.
NATIVE_ARCHS = {archs}
"""

_BUILD = """load("{flags}", "string_list_flag")
load("{rule}", "native_archs")

native_archs(
    name = "archs",
    archs = {archs},
    missing = {missing},
    visibility = ["//visibility:public"],
)

# Transitions read it, which cannot read providers.
string_list_flag(
    name = "{detected}",
    build_setting_default = {archs},
    visibility = ["//visibility:public"],
)

exports_files(["archs.bzl"])
"""

_VARIABLE = "OFFLOAD_ARCHS"
_TIMEOUT = 20

def _programs(repository_ctx):
    """Returns the programs that print GPUs, as (name, paths to check)."""
    rocm = repository_ctx.getenv("ROCM_PATH") or "/opt/rocm"
    llvm = repository_ctx.getenv("OFFLOAD_LLVM")
    return [
        ("amdgpu-arch", ([llvm + "/bin"] if llvm else []) + [rocm + "/lib/llvm/bin", rocm + "/llvm/bin"]),
        ("rocm_agent_enumerator", [rocm + "/bin"]),
    ]

def _detect(repository_ctx):
    """Returns the GPUs of this machine, and why no GPU was found."""
    named = repository_ctx.getenv(_VARIABLE)
    if named:
        return expand_archs([arch for arch in named.replace(" ", ",").split(",") if arch]), ""
    reasons = []
    for name, folders in _programs(repository_ctx):
        candidates = [repository_ctx.path(folder + "/" + name) for folder in folders] + [repository_ctx.which(name)]
        found = [path for path in candidates if path and path.exists]
        if not found:
            reasons.append("{} was not found".format(name))
            continue
        answer = repository_ctx.execute([found[0]], timeout = _TIMEOUT)

        # rocm_agent_enumerator prints the CPU as gfx000.
        lines = [line.strip() for line in answer.stdout.split("\n")]
        archs = {line: None for line in lines if line.startswith("gfx") and line != "gfx000"}.keys()
        if archs:
            return archs, ""
        reasons.append("{} listed no GPU{}".format(found[0], "" if answer.return_code == 0 else " and failed: " + answer.stderr.strip().replace("\n", " ")))
    return [], ", ".join(reasons)

def _native_repository_impl(repository_ctx):
    archs, missing = _detect(repository_ctx)
    repository_ctx.file("archs.bzl", _ARCHS.format(archs = repr(archs)))
    repository_ctx.file("BUILD.bazel", _BUILD.format(
        archs = repr(archs),
        detected = _DETECTED,
        flags = Label("@bazel_skylib//rules:common_settings.bzl"),
        missing = repr(missing),
        rule = Label("//rules/private:native.bzl"),
    ))

native_repository = repository_rule(
    implementation = _native_repository_impl,
    doc = "The GPUs of this machine, as `@NAME//:archs.bzl` and the target `archs`: from the environment variable OFFLOAD_ARCHS, or from the output of `amdgpu-arch` or `rocm_agent_enumerator`.",
    configure = True,
    environ = [_VARIABLE, "OFFLOAD_LLVM", "ROCM_PATH"],
    local = True,
)
