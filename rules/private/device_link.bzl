"""The flags of device links."""

load(":target_ids.bzl", "target_ids")

# The doc of the attribute device_linkopts.
DEVICE_LINKOPTS_DOC = "More flags of the device link, which clang's driver takes: `FLAG` for all targets, `TARGET=FLAG` for " + \
                      "those of a triple (`amdgcn-amd-amdhsa=-lompdevice`), a processor (`gfx90a=-O2`) or a target ID (`gfx90a:xnack+=-O2`). " + \
                      "The flags of compilations that decide about generated code (`-O2`, `-mllvm OPTION`) are passed on already."

# Flags of compilations that decide about the code which a link generates from bitcode, as clang's driver passes
# them to its own device links. Everything else is in the bitcode: the attributes of functions, and module flags.
_OPTIMIZATION = "-O"
_LLVM = "-mllvm"

# Of these, features of AMD's processors: functions that the link itself makes have them from there. The value is LLVM's name.
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

# What comes before a flag for some of the compilations that one call of clang's driver makes.
_FOR_ARCH = "-Xarch_"
_FOR_OPENMP = "-Xopenmp-target="

# As many parts of a HIP program does clang's driver have code generated for at once.
_HIP_PARTITIONS = "8"
_PARTITIONS_SINCE = 21

def flags_of_device(flags, target):
    """The flags of a device compilation among those for several compilations: `-Xarch_device FLAG` and the like.

    Args:
      flags: list of compiler flags, one word each.
      target: struct with triple and target_id, as `target_ids.complete` gives it; None for any AMD GPU.

    Returns:
      list of flags: those that have no such word before them, and those that are for the device or the target.
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
    """The flags among those of a compilation that its device link needs, too, when the link generates code.

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
            # Clang's driver forgets them where it links alone.
            result.extend(["-Xlinker", "-plugin-opt=" + following])
        elif flag.startswith(_LLVM + "="):
            result.extend(["-Xlinker", "-plugin-opt=" + flag.removeprefix(_LLVM + "=")])
        elif flag.startswith(_OPTIMIZATION) or flag in AMDGPU_FEATURES:
            result.append(flag)
    return result

def flags_for(target, flags):
    """The flags for one target.

    Args:
      target: struct with triple and target_id, as `target_ids.complete` gives it.
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
    """Adds the bitcode of an AMD GPU to a link that generates code for all of it at once, as clang's driver does.

    Args:
      args: an `Args` for clang.
      objects: list of Files with bitcode.
      hip: whether the code is HIP's, whose functions nothing outside of the link calls.
      library: list of Files with bitcode that is linked as from an archive: what nobody calls stays out.
      release: of LLVM, 0 for a recent one.
    """
    args.add("-flto")
    if hip:
        args.add("-Wl,-plugin-opt=-amdgpu-internalize-symbols")
        if not release or release >= _PARTITIONS_SINCE:
            args.add(_HIP_PARTITIONS, format = "-Wl,--lto-partitions=%s")

    # For the linker alone: the driver would optimize bitcode that it sees once more before it links it.
    args.add_all(objects, before_each = "-Xlinker")
    if library:
        args.add("-Wl,--start-lib")
        args.add_all(library, before_each = "-Xlinker")
        args.add("-Wl,--end-lib")
