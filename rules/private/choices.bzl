"""Selects on whether a build has device code."""

_INCOMPATIBLE = ["@platforms//:incompatible"]

def requires_hip():
    """For `target_compatible_with`: skips the target where `--@rules_offload//rules/settings:hip=false`.

    `bazel build //...` then works on a machine without a device compiler.

    Returns:
      a `select`.
    """
    return if_hip([], _INCOMPATIBLE)

def requires_cuda():
    """For `target_compatible_with`: skips the target where `--@rules_offload//rules/settings:cuda=false`.

    Returns:
      a `select`.
    """
    return if_cuda([], _INCOMPATIBLE)

def requires_openmp_offload():
    """For `target_compatible_with`: skips the target where `--@rules_offload//rules/settings:openmp=false`.

    Returns:
      a `select`.
    """
    return if_openmp_offload([], _INCOMPATIBLE)

def if_hip(then, otherwise = []):
    """One value where builds have HIP code, another where `--@rules_offload//rules/settings:hip=false`.

    Args:
      then: value of an attribute with HIP code, such as a list of `deps`.
      otherwise: value without.

    Returns:
      a `select`.
    """
    return _if("hip", then, otherwise)

def if_cuda(then, otherwise = []):
    """One value where builds have CUDA code, another where `--@rules_offload//rules/settings:cuda=false`.

    Args:
      then: value of an attribute with CUDA code.
      otherwise: value without.

    Returns:
      a `select`.
    """
    return _if("cuda", then, otherwise)

def if_openmp_offload(then, otherwise = []):
    """One value where builds have OpenMP device code, another where `--@rules_offload//rules/settings:openmp=false`.

    Args:
      then: value of an attribute with OpenMP device code.
      otherwise: value without.

    Returns:
      a `select`.
    """
    return _if("openmp", then, otherwise)

def _if(name, then, otherwise):
    return select({
        Label("//rules/settings:{}_off".format(name)): otherwise,
        "//conditions:default": then,
    })
