"""Versions of PTX."""

# The oldest version of PTX that LLVM supports for each processor. Without CUDA, clang selects 4.2, which LLVM rejects for
# newer processors.
_PTX = {
    "sm_60": 50,
    "sm_61": 50,
    "sm_62": 50,
    "sm_70": 60,
    "sm_72": 61,
    "sm_75": 63,
    "sm_80": 70,
    "sm_86": 71,
    "sm_87": 74,
    "sm_88": 90,
    "sm_89": 78,
    "sm_90": 78,
    "sm_90a": 80,
    "sm_100": 86,
    "sm_101": 86,
    "sm_103": 88,
    "sm_110": 90,
    "sm_120": 87,
    "sm_121": 88,
}

def ptx_feature(processor):
    """Returns LLVM's feature for the PTX version that a processor requires.

    Args:
      processor: such as `sm_90a`.

    Returns:
      a string such as `+ptx80`; empty for an unknown processor.
    """
    version = _PTX.get(processor) or _PTX.get(processor.rstrip("af"))
    return "+ptx{}".format(version) if version else ""
