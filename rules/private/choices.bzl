"""Functions that return a select on whether a build has device code, and for which architecture."""

load(":arch_groups.bzl", "expand_archs")
load(":processor_names.bzl", "check_processor")

_NOT_SPLIT = "if_arch: this build is not for a single architecture: depend on the target through offload_per_arch(images = [...]), or skip it in other builds with target_compatible_with = requires_arch()"

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

def requires_arch():
    """For `target_compatible_with`: skips the target in builds that are not for one architecture.

    `bazel build //...` builds a target with `if_arch` only through an `offload_per_arch`. If the command line names the
    target itself, or a target that depends on it without an `offload_per_arch`, the build fails.

    Returns:
      a `select`.
    """
    return select({
        Label("//rules/arch:is_split"): [],
        "//conditions:default": [Label("//rules/constraints:one_architecture_from_offload_per_arch")],
    })

def if_arch(choices, otherwise = []):
    """Selects a value by the architecture that an `offload_per_arch` builds the target for.

    In other builds, the target fails. `target_compatible_with = requires_arch()` skips it instead.

    ```starlark
    hip_code_objects(
        name = "gemm",
        srcs = ["gemm.hip"],
        hdrs = if_arch({"mi300": ["tiles_mfma.h"]}, ["tiles.h"]),
        target_compatible_with = requires_arch(),
    )
    ```

    Args:
      choices: dict from a processor (`gfx942`, with any features) or a group (`mi300`) to a value of an attribute.
      otherwise: value for all other processors.

    Returns:
      a `select`.
    """
    branches = {Label("//rules/arch:is_split"): otherwise}
    for name, value in choices.items():
        if ":" in name:
            fail("if_arch: {} has features: name a processor, such as {}, which has all settings of its features".format(repr(name), name.split(":")[0]))
        for processor in expand_archs([name]):
            check_processor(processor, "if_arch")
            key = Label("//rules/arch:split_" + processor)
            if key in branches:
                fail("if_arch: {} is named twice, by itself or by a group".format(processor))
            branches[key] = value
    return select(branches, no_match_error = _NOT_SPLIT)

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
