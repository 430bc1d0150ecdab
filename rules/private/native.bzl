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

def native_for(offload_archs):
    """Returns the target that provides the GPUs of this machine, if a rule uses them.

    Args:
      offload_archs: the attribute.

    Returns:
      a Label.
    """
    if NATIVE in offload_archs:
        return Label("@offload_native//:archs")
    return Label("//rules/settings:native_archs")

def native_for_targets(targets):
    """Returns the result of `native_for` for a rule whose attribute is `targets`.

    Args:
      targets: the attribute.

    Returns:
      a Label.
    """
    return native_for(targets)

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
