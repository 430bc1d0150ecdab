"""Functions that return a select on whether a build has device code."""

_INCOMPATIBLE = ["@platforms//:incompatible"]

def requires_hip():
    """For `target_compatible_with`: skips the target if the build has `--@rules_offload//rules/settings:hip=false`.

    `bazel build //...` then works on machines without a device compiler.

    Returns:
      a `select`.
    """
    return if_hip([], _INCOMPATIBLE)

def requires_cuda():
    """For `target_compatible_with`: skips the target if the build has `--@rules_offload//rules/settings:cuda=false`.

    Returns:
      a `select`.
    """
    return if_cuda([], _INCOMPATIBLE)

def requires_openmp_offload():
    """For `target_compatible_with`: skips the target if the build has `--@rules_offload//rules/settings:openmp=false`.

    Returns:
      a `select`.
    """
    return if_openmp_offload([], _INCOMPATIBLE)

def if_hip(then, otherwise = []):
    """Selects one value for builds with HIP code, and another for `--@rules_offload//rules/settings:hip=false`.

    Args:
      then: value of an attribute in builds with HIP code, such as a list of `deps`.
      otherwise: value in other builds.

    Returns:
      a `select`.
    """
    return _if("hip", then, otherwise)

def if_cuda(then, otherwise = []):
    """Selects one value for builds with CUDA code, and another for `--@rules_offload//rules/settings:cuda=false`.

    Args:
      then: value of an attribute in builds with CUDA code.
      otherwise: value in other builds.

    Returns:
      a `select`.
    """
    return _if("cuda", then, otherwise)

def if_openmp_offload(then, otherwise = []):
    """Selects one value for builds with OpenMP device code, and another for `--@rules_offload//rules/settings:openmp=false`.

    Args:
      then: value of an attribute in builds with OpenMP device code.
      otherwise: value in other builds.

    Returns:
      a `select`.
    """
    return _if("openmp", then, otherwise)

def _if(name, then, otherwise):
    return select({
        Label("//rules/settings:{}_off".format(name)): otherwise,
        "//conditions:default": then,
    })
