"""Analysis tests of device compilers: how one is chosen, and the message without one."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "cuda_ptx", "device_bitcode_library", "hip_code_objects", "hip_library", "offload_link", "offload_register", "openmp_library")
load("//rules:toolchains.bzl", "offload_device_toolchain")
load(":testing.bzl", "failure_test")

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.expect_failure(env, ctx.attr.message)
    return analysistest.end(env)

def _failure_test_with(settings):
    return analysistest.make(
        _failure_test_impl,
        attrs = {"message": attr.string(mandatory = True)},
        config_settings = settings,
        expect_failure = True,
    )

_unknown_test = _failure_test_with({str(Label("//rules/settings:device_compiler")): "nosuch"})
_none_test = _failure_test_with({
    "//command_line_option:extra_execution_platforms": str(Label("//tests/analysis:riscv")),
    "//command_line_option:extra_toolchains": str(Label("//tests/analysis:program_toolchain")),
    "//command_line_option:host_platform": str(Label("//tests/analysis:riscv")),
})
_missing_test = _failure_test_with({"//command_line_option:extra_toolchains": str(Label("//tests/analysis:missing_toolchain"))})
_old_test = _failure_test_with({"//command_line_option:extra_toolchains": str(Label("//tests/analysis:old_toolchain"))})
_lld_test = _failure_test_with({"//command_line_option:extra_toolchains": str(Label("//tests/analysis:lld_toolchain"))})
_riscv_test = _failure_test_with({
    "//command_line_option:extra_toolchains": [str(Label("//tests/analysis:riscv_cc")), str(Label("//tests/analysis:clang_toolchain"))],
    "//command_line_option:platforms": str(Label("//tests/analysis:riscv")),
})

_mac_test = _failure_test_with({
    "//command_line_option:extra_toolchains": [str(Label("//tests/analysis:mac_cc")), str(Label("//tests/analysis:clang_toolchain"))],
    "//command_line_option:platforms": str(Label("//tests/analysis:mac")),
})

def toolchains_tests(name):
    """Failures of rules without a compiler, and of offload_device_toolchain.

    Args:
      name: name of the test suite.
    """
    tests = []
    users = {
        "hip_code_objects": (hip_code_objects, {"offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        "hip_library": (hip_library, {"offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        "offload_link": (offload_link, {"srcs": ["host.o"]}),
        "openmp_library": (openmp_library, {"offload_archs": ["gfx942"], "srcs": ["a.c"]}),
    }
    for user, (rule, kwargs) in users.items():
        rule(name = "compiler_of_" + user, tags = ["manual"], **kwargs)
        for case, test, message in [
            ("missing", _missing_test, "//tests/analysis:compiler_of_{}: no clang here; install it"),
            ("unknown", _unknown_test, "//tests/analysis:compiler_of_{}: --//rules/settings:device_compiler=nosuch: no registered device compiler for the execution platforms has this name. Use the name of a tag in MODULE.bazel or of a device_toolchain, or register one:\n    offload.system_clang(name = \"nosuch\", path = \"/path/to/llvm\")"),
        ]:
            test(
                name = "compiler_{}_{}_test".format(case, user),
                size = "small",
                message = message.format(user),
                target_under_test = "compiler_of_" + user,
            )
            tests.append("compiler_{}_{}_test".format(case, user))
    _none_test(
        name = "compiler_none_test",
        size = "small",
        message = "//tests/analysis:compiler_of_hip_code_objects: no registered device compiler supports the execution platforms. Add to MODULE.bazel:\n    offload = use_extension(\"@rules_offload//rules:extensions.bzl\", \"offload\")",
        target_under_test = "compiler_of_hip_code_objects",
    )

    device_bitcode_library(
        name = "compiler_of_device_bitcode_library",
        srcs = ["a.c"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    for user in ["device_bitcode_library", "hip_code_objects", "hip_library", "openmp_library"]:
        _old_test(
            name = "compiler_old_{}_test".format(user),
            size = "small",
            message = "//tests/analysis:compiler_of_{user}: {user}: offload_archs: gfx942 is a processor that the device compiler, clang 22, does not support: take a newer one (docs/toolchains.md), or leave gfx942 out".format(user = user),
            target_under_test = "compiler_of_" + user,
        )
        tests.append("compiler_old_{}_test".format(user))

    for user, rule, kwargs in [
        ("cuda_ptx", cuda_ptx, {"offload_archs": ["sm_70"], "srcs": ["a.cu", "sub/a.cc"]}),
        ("openmp_nvptx", openmp_library, {"offload_archs": ["sm_70"], "srcs": ["a.c"]}),
    ]:
        rule(name = "compiler_of_" + user, tags = ["manual"], **kwargs)
        _lld_test(
            name = "compiler_lld_{}_test".format(user),
            size = "small",
            message = "//tests/analysis:compiler_of_{}: the device compiler has ld.lld but no clang-nvlink-wrapper, with which clang links code for NVIDIA GPUs: install it (Debian: clang-tools-22), or use an archive".format(user),
            target_under_test = "compiler_of_" + user,
        )
        tests.append("compiler_lld_{}_test".format(user))

    offload_register(
        name = "register_on_riscv",
        bundle = ":bundle",
        tags = ["manual"],
    )
    for user in ["hip_library", "offload_link", "openmp_library"]:
        for case, test in [("mac", _mac_test), ("riscv", _riscv_test)]:
            test(
                name = "{}_on_{}_test".format(user, case),
                size = "small",
                message = "//tests/analysis:compiler_of_{}: the target platform is not Linux on x86_64 or aarch64, so device images cannot be registered. ".format(user) +
                          "Build for another platform, or skip the target for this one:\n    target_compatible_with = [",
                target_under_test = "compiler_of_" + user,
            )
            tests.append("{}_on_{}_test".format(user, case))
    _riscv_test(
        name = "register_on_riscv_test",
        size = "small",
        message = "//tests/analysis:register_on_riscv: the target platform is not Linux on x86_64 or aarch64, or Windows on x86_64, so device images cannot be registered.",
        target_under_test = "register_on_riscv",
    )

    for case, kwargs, message in [
        ("no_clang", {}, "clang is not set: name a clang with the AMDGPU target"),
        ("rocm_files", {"clang": "clang.sh", "rocm_files": ["a.h"]}, "rocm_files is set without rocm_version: clang locates ROCm by the path of share/hip/version"),
        ("rocm_version", {"clang": "clang.sh", "rocm_version": "a.h"}, "rocm_version is tests/analysis/a.h: expected the file share/hip/version of a directory with the layout of ROCm"),
    ]:
        failure_test(
            name = "toolchain_{}_test".format(case),
            message = "{}: offload_device_toolchain: " + message,
            rule = offload_device_toolchain,
            **kwargs
        )
        tests.append("toolchain_{}_test".format(case))
    native.test_suite(
        name = name,
        tests = tests + ["compiler_none_test", "register_on_riscv_test"],
    )
