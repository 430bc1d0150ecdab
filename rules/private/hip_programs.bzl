"""hip_binary and hip_test: programs whose sources are compiled as HIP."""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load("@rules_cc//cc:cc_test.bzl", "cc_test")
load(":hip_library.bzl", "hip_library")

# What a program takes itself; everything else is for the compilation of its sources.
_PROGRAM_ATTRS = [
    "args",
    "data",
    "dynamic_deps",
    "env",
    "env_inherit",
    "flaky",
    "link_extra_lib",
    "linkopts",
    "linkshared",
    "linkstatic",
    "local",
    "malloc",
    "shard_count",
    "size",
    "stamp",
    "timeout",
]

# What both have.
_COMMON_ATTRS = [
    "compatible_with",
    "deprecation",
    "exec_compatible_with",
    "exec_properties",
    "features",
    "restricted_to",
    "tags",
    "target_compatible_with",
    "testonly",
    "toolchains",
]

# Schedulers with GPUs know tests by these. Two tests on one GPU disturb each other.
_GPU_TEST_TAGS = ["exclusive-if-local", "gpu", "requires-gpu-amd"]

def _program(rule, name, srcs, deps, visibility, kwargs, tags = [], incompatible = []):
    program = {key: value for key, value in kwargs.items() if key in _PROGRAM_ATTRS}
    common = {key: value for key, value in kwargs.items() if key in _COMMON_ATTRS}
    library = {key: value for key, value in kwargs.items() if key not in _PROGRAM_ATTRS and key not in _COMMON_ATTRS}
    testonly = common.pop("testonly", rule == cc_test)
    own_tags = common.pop("tags", [])
    compatible = common.pop("target_compatible_with", [])
    hip_library(
        name = name + "_hip",
        srcs = srcs,
        tags = own_tags + ["manual"],
        target_compatible_with = compatible,
        testonly = testonly,
        visibility = ["//visibility:private"],
        deps = deps,
        **(common | library)
    )
    rule(
        name = name,
        tags = own_tags + tags,
        target_compatible_with = compatible + incompatible,
        testonly = testonly,
        visibility = visibility,
        deps = [":" + name + "_hip"],
        **(common | program)
    )

def hip_binary(name, srcs, deps = [], visibility = None, **kwargs):
    """A program whose sources are compiled as HIP, as `hipcc a.hip main.cpp -o app` does it.

    It is a `hip_library` of the sources, `NAME_hip`, and a `cc_binary` that depends on it. Write these two instead if
    some sources should be compiled as plain C++.

    ```starlark
    hip_binary(
        name = "app",
        srcs = ["main.hip", "solver.hip"],
        offload_archs = ["gfx942"],
    )
    ```

    Args:
      name: name of the program.
      srcs: HIP sources, one of them with `main`.
      deps: libraries.
      visibility: of the program.
      **kwargs: attributes of `cc_binary` that concern linking and running (`linkopts`, `data`, `args`, `env` and the
        like), and attributes of `hip_library` (`copts`, `defines`, `offload_archs` and the like).
    """
    _program(cc_binary, name, srcs, deps, visibility, kwargs)

def hip_test(name, srcs, deps = [], visibility = None, **kwargs):
    """A test whose sources are compiled as HIP. It runs on a machine with an AMD GPU.

    The tags `gpu`, `requires-gpu-amd` and `exclusive-if-local` tell schedulers what it needs; `exec_properties` can choose a
    pool of machines, e.g. `{"test.Pool": "mi300"}`. With `--@rules_offload//rules/settings:gpu=false`, and on platforms that HIP is
    turned off for, it is skipped.

    ```starlark
    hip_test(
        name = "solver_test",
        size = "small",
        srcs = ["solver_test.hip"],
        deps = [":solver"],
    )
    ```

    Args:
      name: name of the test.
      srcs: HIP sources, one of them with `main`.
      deps: libraries.
      visibility: of the test.
      **kwargs: attributes of `cc_test` that concern linking and running (`size`, `args`, `data` and the like), and
        attributes of `hip_library`.
    """
    _program(
        cc_test,
        name,
        srcs,
        deps,
        visibility,
        kwargs,
        incompatible = select({
            Label("//rules/settings:gpu_off"): ["@platforms//:incompatible"],
            "//conditions:default": [],
        }),
        tags = _GPU_TEST_TAGS,
    )
