"""hip_binary and hip_test build programs from HIP sources."""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load("@rules_cc//cc:cc_test.bzl", "cc_test")
load(":hip_library.bzl", "hip_library")
load(":program.bzl", "PROGRAM_GROUPS")
load(":toolchains.bzl", "CLANG_GROUPS")

# Attributes of the program; all others are for the compilation of its sources.
_PROGRAM_ATTRS = [
    "args",
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

# Attributes that both targets have.
_COMMON_ATTRS = [
    "additional_linker_inputs",
    "applicable_licenses",
    "aspect_hints",
    "compatible_with",
    "data",
    "deprecation",
    "exec_compatible_with",
    "features",
    "package_metadata",
    "restricted_to",
    "tags",
    "target_compatible_with",
    "testonly",
    "toolchains",
]

# Schedulers with GPUs recognize tests by these tags. Two tests on the same GPU would interfere.
_GPU_TEST_TAGS = ["exclusive-if-local", "gpu", "requires-gpu-amd"]

# The exec groups of hip_library. Properties without a group apply to both targets, all others to the program.
_LIBRARY_GROUPS = CLANG_GROUPS | PROGRAM_GROUPS

def _exec_properties(kwargs):
    """Divides exec_properties into the value for the library and the value for the program, attributes of both.

    Args:
      kwargs: attributes of the macro, from which exec_properties is removed.

    Returns:
      two dicts of attributes. A select cannot be divided: both targets get it.
    """
    if "exec_properties" not in kwargs:
        return {}, {}
    properties = kwargs.pop("exec_properties")
    if type(properties) != "dict":
        return {"exec_properties": properties}, {"exec_properties": properties}
    library = {}
    program = {}
    for key, value in properties.items():
        group, dot, _ = key.partition(".")
        if not dot or group in _LIBRARY_GROUPS:
            library[key] = value
        if not dot or group not in _LIBRARY_GROUPS:
            program[key] = value
    return {"exec_properties": library}, {"exec_properties": program}

def _program(rule, name, srcs, deps, visibility, kwargs, tags = [], incompatible = []):
    kwargs = {key: value for key, value in kwargs.items() if value != None}
    of_library, of_program = _exec_properties(kwargs)
    program = {key: value for key, value in kwargs.items() if key in _PROGRAM_ATTRS}
    common = {key: value for key, value in kwargs.items() if key in _COMMON_ATTRS}
    library = {key: value for key, value in kwargs.items() if key not in _PROGRAM_ATTRS and key not in _COMMON_ATTRS}
    testonly = common.pop("testonly", rule == cc_test)
    own_tags = common.pop("tags", [])
    compatible = common.pop("target_compatible_with", [])
    hip_library(
        name = name + "_hip",
        srcs = srcs,
        alwayslink = library.pop("alwayslink", True),
        tags = own_tags + ["manual"],
        target_compatible_with = compatible,
        testonly = testonly,
        visibility = ["//visibility:private"],
        deps = deps,
        **(common | library | of_library)
    )
    rule(
        name = name,
        tags = own_tags + tags,
        target_compatible_with = compatible + incompatible,
        testonly = testonly,
        visibility = visibility,
        deps = [":" + name + "_hip"],
        **(common | program | of_program)
    )

def hip_binary(name, srcs, deps = [], visibility = None, **kwargs):
    """Builds a program and compiles all its sources as HIP, as `hipcc a.hip main.cpp -o app` does.

    The macro declares a `hip_library` with the sources, `NAME_hip`, and a `cc_binary` that depends on it. To compile some
    sources as plain C++, declare these two targets instead.

    ```starlark
    hip_binary(
        name = "app",
        srcs = ["main.hip", "solver.hip"],
        offload_archs = ["gfx942"],
    )
    ```

    Default outputs: the program.

    Args:
      name: name of the program.
      srcs: HIP sources, one of them with `main`. Sources with the extension `.c` are compiled as C, as hipcc does.
      deps: libraries to link.
      visibility: visibility of the program.
      **kwargs: attributes of `cc_binary` for linking and running (`linkopts`, `data`, `args`, `env` and
        similar), and attributes of `hip_library` (`copts`, `defines`, `offload_archs` and similar).
    """
    _program(cc_binary, name, srcs, deps, visibility, kwargs)

def hip_test(name, srcs, deps = [], visibility = None, **kwargs):
    """Builds a test and compiles all its sources as HIP. The test requires a machine with an AMD GPU.

    The tags `gpu`, `requires-gpu-amd` and `exclusive-if-local` describe this requirement to schedulers. `exec_properties` can
    select a pool of machines, e.g. `{"test.Pool": "mi300"}`. Bazel skips the test with `--@rules_offload//rules/settings:gpu=false`,
    and on platforms for which HIP is disabled.

    ```starlark
    hip_test(
        name = "solver_test",
        size = "small",
        srcs = ["solver_test.hip"],
        deps = [":solver"],
    )
    ```

    Default outputs: the test.

    Args:
      name: name of the test.
      srcs: HIP sources, one of them with `main`.
      deps: libraries to link.
      visibility: visibility of the test.
      **kwargs: attributes of `cc_test` for linking and running (`size`, `args`, `data` and similar), and
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
