"""AddressSanitizer for device code."""

load(":processors.bzl", "FEATURES", "FIXED_FEATURES")

_SANITIZE = "-fsanitize="
_NO_SANITIZE = "-fno-sanitize="
_NOT_ON_GPU = "-fno-gpu-sanitize"

# Device code without it. With _NOT_ON_GPU, clang requires ROCm in spite of -nogpulib.
_UNCHECKED = _NO_SANITIZE + "address"

# The device library that instrumented code calls.
_RUNTIME = "asanrtl.bc"

def _is_sanitized(flags):
    sanitized = False
    for flag in flags:
        if "sanitize" not in flag:
            continue
        if flag == _NOT_ON_GPU:
            return False
        if flag.startswith(_SANITIZE) and "address" in flag.removeprefix(_SANITIZE).split(","):
            sanitized = True
        elif flag.startswith(_NO_SANITIZE) and [name for name in flag.removeprefix(_NO_SANITIZE).split(",") if name in ("address", "all")]:
            sanitized = False
    return sanitized

def sanitizer_flags(compiler, targets, where, *, copts):
    """Returns the flags of AddressSanitizer for device code if host code has it, and prints which device code cannot have it.

    As with clang's driver, device code has it for targets with `xnack+`, and for processors that always have xnack. All other
    code is the same as without it.

    Args:
      compiler: result of `compiler_of`.
      targets: list of structs returned by `target_ids.complete`.
      where: prefix of messages, `label: rule`.
      copts: list of strings: the compiler flags of the target.

    Returns:
      a dict from the target ID of a target to a list of flags; without an entry, the target has none.
    """
    if not _is_sanitized((compiler.host_flags("c++") if compiler.cc else []) + copts):
        return {}
    rocm = compiler.clang.rocm
    if not rocm or _RUNTIME not in [library.basename for library in rocm.device_libraries]:
        # buildifier: disable=print
        print("{}: AddressSanitizer checks host code only: the device compiler has no device library {}; use a compiler with a ROCm that has it (rocm_path)".format(where, _RUNTIME))
        return {target.target_id: [_UNCHECKED] for target in targets}
    flags = {}
    advice = []
    for target in targets:
        processor = target.target_id.split(":")[0]
        if "xnack+" in target.target_id.split(":") or "xnack" in FIXED_FEATURES.get(processor, []):
            flags[target.target_id] = [_SANITIZE + "address", "-fgpu-sanitize"]
            continue
        flags[target.target_id] = [_UNCHECKED]
        if "xnack" in FEATURES.get(processor, []) and not target.portable:
            advice.append("{}: write {}:xnack+ in offload_archs".format(target.target_id, processor))
        else:
            advice.append("{}: not supported".format(target.target_id))
    if advice:
        # buildifier: disable=print
        print("{}: AddressSanitizer checks device code only for targets with xnack+, and not for {}".format(where, "; ".join(advice)))
    return flags
