"""Flags of device links."""

load(":target_ids.bzl", "target_ids")

# The documentation of the attribute device_linkopts.
DEVICE_LINKOPTS_DOC = "Additional flags for the device link, as flags of clang's driver: `FLAG` for all targets, `TARGET=FLAG` for " + \
                      "the targets of a triple (`amdgcn-amd-amdhsa=-lompdevice`), a processor (`gfx90a=-O2`) or a target ID (`gfx90a:xnack+=-O2`). " + \
                      "Compiler flags that affect code generation (`-O2`, `-mllvm OPTION`) are already passed to the link."

# Compiler flags that affect the code that a link generates from bitcode. Clang's driver passes the same flags to its
# own device links. The bitcode contains the rest, as function attributes and module flags.
_OPTIMIZATION = "-O"
_LLVM = "-mllvm"

# Of these, flags for features of AMD's processors, which functions that the link itself creates take from the command
# line. The value is LLVM's name of the feature.
AMDGPU_FEATURES = {
    "-mamdgpu-precise-memory-op": "+precise-memory",
    "-mcumode": "+cumode",
    "-mno-amdgpu-precise-memory-op": "-precise-memory",
    "-mno-cumode": "-cumode",
    "-mno-tgsplit": "-tgsplit",
    "-mno-wavefrontsize64": "-wavefrontsize64",
    "-mtgsplit": "+tgsplit",
    "-mwavefrontsize64": "+wavefrontsize64",
}

# Prefixes of flags that apply to some of the compilations in one call of clang's driver.
_FOR_ARCH = "-Xarch_"
_FOR_OPENMP = "-Xopenmp-target="

# The number of parts of a HIP program for which clang's driver generates code in parallel, and the releases that do.
_HIP_PARTITIONS = "8"
_PARTITIONS_SINCE = 21
_PARTITIONS_UNTIL = 22

def flags_of_device(flags, target):
    """Selects the flags of a device compilation from flags for several compilations, such as `-Xarch_device FLAG`.

    Args:
      flags: list of compiler flags, one word each.
      target: struct with triple and target_id, returned by `target_ids.complete`; None for any AMD GPU.

    Returns:
      list of flags: those without such a prefix, and those for the device or the target.
    """
    result = []
    prefix = ""
    for flag in flags:
        if prefix:
            if _is_for(prefix, target):
                result.append(flag)
            prefix = ""
        elif flag.startswith(_FOR_ARCH) or flag.startswith(_FOR_OPENMP):
            prefix = flag
        else:
            result.append(flag)
    return result

def _is_for(prefix, target):
    if prefix.startswith(_FOR_OPENMP):
        return target and prefix.removeprefix(_FOR_OPENMP) == target.triple.removesuffix("-").removesuffix("-unknown")
    names = ["device"]
    if target:
        names.extend([target.target_id, target.triple.split("-")[0]])
    return prefix.removeprefix(_FOR_ARCH) in names

def code_generation_flags(flags, target):
    """Selects the flags of a compilation that its device link also requires if it generates code.

    Args:
      flags: list of compiler flags, one word each.
      target: as for `flags_of_device`.

    Returns:
      list of flags for clang.
    """
    flags = flags_of_device(flags, target)
    result = []
    for flag, following in zip(flags, flags[1:] + [""]):
        if flag == _LLVM and following:
            # Clang's driver does not pass them on if it only links.
            result.extend(["-Xlinker", "-plugin-opt=" + following])
        elif flag.startswith(_LLVM + "="):
            result.extend(["-Xlinker", "-plugin-opt=" + flag.removeprefix(_LLVM + "=")])
        elif flag.startswith(_OPTIMIZATION) or flag in AMDGPU_FEATURES:
            result.append(flag)
    return result

def flags_for(target, flags):
    """Selects the flags for one target.

    Args:
      target: struct with triple and target_id, returned by `target_ids.complete`.
      flags: list of strings: `FLAG` for all targets, `TARGET=FLAG` for one, which is a triple (`amdgcn-amd-amdhsa`), a
        processor (`gfx90a`, with all its features), or a target ID (`gfx90a:xnack+`).

    Returns:
      list of flags.
    """
    result = []
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not equals or not target_ids.is_target(name):
            result.append(flag)
        elif target_ids.matches(name, target):
            result.append(value)
    return result

def add_amdgpu_lto(args, objects, *, hip, library = [], release = 0):
    """Adds the bitcode of an AMD GPU to a link that generates code for the whole bitcode, as clang's driver does.

    Args:
      args: an `Args` for clang.
      objects: list of Files with bitcode.
      hip: whether the code is HIP code, whose functions are not called from outside the link.
      library: list of Files with bitcode that is linked like an archive: functions that are not called are left out.
      release: release of LLVM, 0 if it is unknown.
    """
    args.add("-flto")
    if hip:
        args.add("-Wl,-plugin-opt=-amdgpu-internalize-symbols")
        if _PARTITIONS_SINCE <= release and release <= _PARTITIONS_UNTIL:
            args.add(_HIP_PARTITIONS, format = "-Wl,--lto-partitions=%s")

    # Only the linker gets these files: the driver would optimize bitcode again before linking it.
    args.add_all(objects, before_each = "-Xlinker")
    if library:
        args.add("-Wl,--start-lib")
        args.add_all(library, before_each = "-Xlinker")
        args.add("-Wl,--end-lib")
