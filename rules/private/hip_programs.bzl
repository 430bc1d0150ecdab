"""hip_binary and hip_test build programs from HIP sources."""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load(":gpu_test.bzl", "gpu_test")
load(":hip_library.bzl", "hip_library")
load(":program.bzl", "PROGRAM_GROUPS")
load(":toolchains.bzl", "CLANG_GROUPS")

# Attributes of the link of the program.
_LINK_ATTRS = [
    "dynamic_deps",
    "link_extra_lib",
    "linkopts",
    "linkshared",
    "linkstatic",
    "malloc",
    "stamp",
]

# Attributes of the target that users run, the program or the test: how to run it, and where.
_RUN_ATTRS = [
    "args",
    "env",
    "env_inherit",
    "exec_compatible_with",
    "exec_group_compatible_with",
    "exec_properties",
    "flaky",
    "gpu_resource",
    "gpus",
    "local",
    "shard_count",
    "size",
    "timeout",
]

# Attributes of the compilation and of the link of the program.
_BUILD_ATTRS = [
    "additional_linker_inputs",
]

# Attributes of all targets.
_COMMON_ATTRS = [
    "applicable_licenses",
    "aspect_hints",
    "compatible_with",
    "data",
    "deprecation",
    "features",
    "package_metadata",
    "restricted_to",
    "toolchains",
]

# Attributes of the compilation whose names without this prefix are those of the target that users run.
_OF_LIBRARY = "library_"
_LIBRARY_ATTRS = [
    "exec_compatible_with",
    "exec_group_compatible_with",
    "exec_properties",
]

# Schedulers with GPUs recognize tests by these tags.
_GPU_TEST_TAGS = ["gpu", "requires-gpu-amd"]

# The exec groups of hip_library.
_LIBRARY_GROUPS = CLANG_GROUPS | PROGRAM_GROUPS

def _check_groups(macro, name, kwargs):
    """Fails if the properties of the target that users run name an exec group of the compilation. Bazel checks those in a select."""
    properties = kwargs.get("exec_properties")
    for key in properties if type(properties) == "dict" else []:
        group, dot, _ = key.partition(".")
        if dot and group in _LIBRARY_GROUPS:
            fail("//{}:{}: {}: exec_properties: {} is for the compilation of the sources: set library_exec_properties instead".format(native.package_name(), name, macro, repr(key)))

def _taken(kwargs, names):
    """Removes attributes from a dict, and returns them as another one."""
    return {key: kwargs.pop(key) for key in names if key in kwargs}

def _divided(macro, name, kwargs):
    """Divides the attributes of a macro by their names. The values can be selects.

    Args:
      macro: name of the macro.
      name: name of the target that users run.
      kwargs: the attributes.

    Returns:
      a struct of dicts: common, of all targets; run, of the target that users run; program, of the link; library, of the compilation.
    """
    kwargs = {key: value for key, value in kwargs.items() if value != None}
    _check_groups(macro, name, kwargs)
    common = _taken(kwargs, _COMMON_ATTRS)
    run = _taken(kwargs, _RUN_ATTRS)
    build = _taken(kwargs, _BUILD_ATTRS)
    program = _taken(kwargs, _LINK_ATTRS)
    own = {key: kwargs.pop(_OF_LIBRARY + key) for key in _LIBRARY_ATTRS if _OF_LIBRARY + key in kwargs}
    return struct(
        common = common,
        library = build | kwargs | own,
        program = build | program,
        run = run,
    )

def _library(name, srcs, deps, *, tags, attributes):
    """Declares the hip_library of a program, and returns its label."""
    hip_library(
        name = name + "_hip",
        srcs = srcs,
        alwayslink = attributes.pop("alwayslink", True),
        tags = tags + ["manual"],
        visibility = ["//visibility:private"],
        deps = deps,
        **attributes
    )
    return ":" + name + "_hip"

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
        similar), and attributes of `hip_library` (`copts`, `defines`, `offload_archs` and similar). `exec_properties`,
        `exec_compatible_with` and `exec_group_compatible_with` are those of the program; `library_exec_properties` and so
        on are those of the compilation. Properties are for the exec groups of the target: `{"compile.Pool": "large"}` in
        `library_exec_properties`. `tags` apply to both.
    """
    parts = _divided("hip_binary", name, kwargs)
    tags = parts.library.pop("tags", [])
    both = parts.common | _taken(parts.library, ["target_compatible_with", "testonly"])
    library = _library(name, srcs, deps, attributes = both | parts.library, tags = tags)
    cc_binary(
        name = name,
        tags = tags,
        visibility = visibility,
        deps = [library],
        **(both | parts.program | parts.run)
    )

def hip_test(name, srcs, deps = [], visibility = None, **kwargs):
    """Builds a test and compiles all its sources as HIP. The test requires a machine with an AMD GPU.

    Bazel runs as many such tests at a time as the machine has GPUs, which a flag tells it: `--local_resources=gpu=8`. To give each
    test a GPU of its own, add `--run_under="@rules_offload//rules/toolchain:program on-gpu --"`. See
    [Tests on GPUs](../howto/gpu_tests.md).

    The tags `gpu` and `requires-gpu-amd` describe the requirement to schedulers. `exec_properties` can
    select a pool of machines, e.g. `{"Pool": "mi300"}`. Bazel skips the test with `--@rules_offload//rules/settings:gpu=false`,
    and on platforms for which HIP is disabled.

    ```starlark
    hip_test(
        name = "solver_test",
        size = "small",
        srcs = ["solver_test.hip"],
        deps = [":solver"],
    )
    ```

    The macro declares a `hip_library` with the sources, `NAME_hip`, a `cc_binary`, `NAME_program`, and the test. Tags and
    properties of the test do not apply to the compilations and links.

    Default outputs: the test.

    Args:
      name: name of the test.
      srcs: HIP sources, one of them with `main`.
      deps: libraries to link.
      visibility: visibility of the test.
      **kwargs: attributes of `cc_test` for linking and running (`size`, `args`, `data` and similar), and
        attributes of `hip_library`. `gpus` is the number of GPUs that the test uses, 1 by default. `gpu_resource` is the name of
        the resource in `--local_resources`, by default the value of the setting `//rules/settings:gpu_resource`, `gpu`.
        `exec_properties`, `exec_compatible_with` and `exec_group_compatible_with` are those of the test; `library_exec_properties` and so
        on are those of the compilation.
    """
    parts = _divided("hip_test", name, kwargs)
    tags = parts.library.pop("tags", [])
    compatible = parts.library.pop("target_compatible_with", [])
    both = parts.common | {"testonly": parts.library.pop("testonly", True)}
    program = name + "_program"
    library = _library(name, srcs, deps, attributes = both | parts.library | {"target_compatible_with": compatible}, tags = [])

    # As in cc_test.
    link = {"linkstatic": False, "stamp": 0} | parts.program
    cc_binary(
        name = program,
        tags = ["manual"],
        target_compatible_with = compatible,
        visibility = ["//visibility:private"],
        deps = [library],
        **(both | link)
    )
    gpu_test(
        name = name,
        program = ":" + program,
        tags = tags + _GPU_TEST_TAGS,
        target_compatible_with = compatible + select({
            Label("//rules/settings:gpu_off"): ["@platforms//:incompatible"],
            "//conditions:default": [],
        }),
        visibility = visibility,
        **(both | parts.run)
    )
