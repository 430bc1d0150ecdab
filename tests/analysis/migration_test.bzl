"""The macro of docs/howto/migrate.md, with the attributes that XLA's rocm_library is called with."""

load("//rules:defs.bzl", "hip_library")
load(":testing.bzl", "actions_test", "provides_test")

def rocm_library(**kwargs):
    """The macro of the page."""
    hip_library(**kwargs)

def migration_tests(name):
    """Targets as they are in repositories that have rocm_library.

    Args:
      name: name of the test suite.
    """
    rocm_library(
        name = "rocm_below",
        hdrs = ["sub/impl.h"],
        srcs = ["sub/a.hip"],
        linkstatic = True,
        offload_archs = ["gfx942"],
        tags = ["manual"],
        textual_hdrs = ["sub/text.inc"],
    )
    rocm_library(
        name = "rocm",
        srcs = ["a.cu"],
        hdrs = ["a.h"],
        alwayslink = True,
        compatible_with = [],
        copts = ["-fno-exceptions"],
        data = ["host.o"],
        defines = ["TENSORFLOW_USE_ROCM=1"],
        features = ["-layering_check"],
        include_prefix = "xla",
        includes = ["lib"],
        linkopts = ["-ldl"],
        local_defines = ["EIGEN_USE_GPU"],
        offload_archs = ["gfx90a", "gfx942"],
        strip_include_prefix = "",
        tags = ["manual"],
        testonly = True,
        visibility = ["//visibility:public"],
        deps = [":rocm_below"],
    )
    actions_test(
        name = "rocm_device_test",
        testonly = True,
        argv = ["-x hip", "--offload-arch=gfx942", "-fno-exceptions", "-DEIGEN_USE_GPU", "-DTENSORFLOW_USE_ROCM=1"],
        count = 2,
        inputs = ["tests/analysis/a.h", "tests/analysis/sub/impl.h", "tests/analysis/sub/text.inc"],
        mnemonic = "OffloadHipCompile",
        output = "rocm/gfx942/a.o",
        target = "rocm",
    )
    actions_test(
        name = "rocm_host_test",
        testonly = True,
        argv = ["--offload-host-only", "-DEIGEN_USE_GPU", "-fno-exceptions"],
        count = 1,
        mnemonic = "OffloadHipHostCompile",
        output = "rocm/host/a.o",
        target = "rocm",
    )
    provides_test(
        name = "rocm_provides_test",
        testonly = True,
        link_flags = ["-ldl"],
        target = "rocm",
    )
    provides_test(
        name = "rocm_alwayslink_test",
        alwayslink = "True",
        target = "rocm",
        testonly = True,
    )
    provides_test(
        name = "rocm_below_alwayslink_test",
        alwayslink = "False",
        target = "rocm_below",
    )
