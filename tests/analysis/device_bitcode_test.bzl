"""Analysis tests of device_bitcode_library, and of rules that link it."""

load("//rules:defs.bzl", "device_bitcode_library", "hip_code_objects", "hip_library", "openmp_library")
load(":testing.bzl", "actions_test", "failure_test", "provides_test")

def device_bitcode_tests(name):
    """Actions, providers and failures of device_bitcode_library.

    Args:
      name: name of the test suite.
    """
    device_bitcode_library(
        name = "bitcode_below",
        srcs = ["lib/below.bc"],
        hdrs = ["lib/below.h"],
        tags = ["manual"],
    )
    device_bitcode_library(
        name = "bitcode",
        srcs = ["a.c", "a.hip", "lib/a.cl", "lib/a.ll", "lib/more.bc"],
        hdrs = ["a.h"],
        arch_copts = {"gfx942": ["-for-gfx942"]},
        copts = ["-copt"],
        defines = ["BITCODE"],
        device_deps = [":bitcode_below"],
        offload_archs = ["gfx90a", "gfx942:xnack+"],
        tags = ["manual"],
    )
    device_bitcode_library(
        name = "bitcode_by_arch",
        srcs = ["lib/isa_90a.bc"],
        arch_srcs = {"gfx90a": ["lib/isa_90a.bc"]},
        tags = ["manual"],
    )
    hip_code_objects(
        name = "bitcode_kernels",
        srcs = ["a.hip"],
        device_deps = [":bitcode"],
        offload_archs = ["gfx90a:xnack+", "gfx942:xnack+"],
        tags = ["manual"],
    )
    hip_library(
        name = "bitcode_library",
        srcs = ["a.hip"],
        device_deps = [":bitcode_by_arch"],
        offload_archs = ["gfx90a"],
        tags = ["manual"],
    )
    openmp_library(
        name = "bitcode_openmp",
        srcs = ["a.c"],
        device_deps = [":bitcode"],
        offload_archs = ["gfx90a", "x86_64-unknown-linux-gnu"],
        tags = ["manual"],
    )
    actions_test(
        name = "bitcode_c_test",
        argv = ["-x c -toolchain-flag -fastbuild-flag --target=amdgcn-amd-amdhsa -mcpu=gfx90a", "-emit-llvm -c", "-copt"],
        count = 8,
        mnemonic = "OffloadBitcodeCompile",
        not_in_argv = ["-for-gfx942"],
        output = "bitcode/gfx90a/a.bc",
        target = "bitcode",
    )
    actions_test(
        name = "bitcode_merge_test",
        argv = ["-mcpu=gfx942:xnack+ -nogpulib", "-Xclang -mlink-bitcode-file -Xclang BIN/tests/analysis/bitcode/gfx942_xnack+/a_hip.bc", "-Xclang -mlink-bitcode-file -Xclang tests/analysis/lib/more.bc"],
        count = 2,
        inputs = ["tests/analysis/lib/more.bc"],
        mnemonic = "OffloadBitcodeMerge",
        output = "bitcode/gfx942_xnack+.bc",
        target = "bitcode",
    )
    actions_test(
        name = "bitcode_hip_test",
        argv = ["-x hip", "--offload-device-only --no-gpu-bundle-output --offload-arch=gfx942:xnack+ -fgpu-rdc", "-for-gfx942"],
        mnemonic = "OffloadBitcodeCompile",
        output = "bitcode/gfx942_xnack+/a_hip.bc",
        target = "bitcode",
    )
    actions_test(
        name = "bitcode_ll_test",
        argv = ["-x ir", "-Xclang -disable-llvm-passes"],
        mnemonic = "OffloadBitcodeCompile",
        not_in_argv = ["-copt"],
        output = "bitcode/gfx90a/lib/a_ll.bc",
        target = "bitcode",
    )
    provides_test(
        name = "bitcode_provides_test",
        defines = ["BITCODE"],
        files = ["bitcode/gfx90a.bc", "bitcode/gfx942_xnack+.bc"],
        groups = {"gfx90a": ["bitcode/gfx90a.bc"]},
        headers = ["a.h", "lib/below.h"],
        target = "bitcode",
    )

    # Code for a processor serves all settings of its features; what a library needs comes after it.
    actions_test(
        name = "bitcode_used_test",
        argv = ["-Xclang -mlink-builtin-bitcode -Xclang BIN/tests/analysis/bitcode/gfx90a.bc -Xclang -mlink-builtin-bitcode -Xclang tests/analysis/lib/below.bc", "-DBITCODE"],
        inputs = ["tests/analysis/bitcode/gfx90a.bc", "tests/analysis/lib/below.bc", "tests/analysis/a.h"],
        mnemonic = "OffloadHipCompile",
        output = "bitcode_kernels/gfx90a_xnack+/a.o",
        target = "bitcode_kernels",
    )
    actions_test(
        name = "bitcode_library_test",
        argv = ["-Xclang -mlink-builtin-bitcode -Xclang tests/analysis/lib/isa_90a.bc"],
        mnemonic = "OffloadHipCompile",
        output = "bitcode_library/gfx90a/a.o",
        target = "bitcode_library",
    )
    actions_test(
        name = "bitcode_not_for_host_test",
        count = 1,
        mnemonic = "OffloadHipHostCompile",
        not_in_argv = ["-mlink-builtin-bitcode"],
        output = "bitcode_library/host/a.o",
        target = "bitcode_library",
    )
    actions_test(
        name = "bitcode_openmp_test",
        argv = ["-Xclang -mlink-builtin-bitcode -Xclang BIN/tests/analysis/bitcode/gfx90a.bc"],
        mnemonic = "OffloadOpenMpCompile",
        output = "bitcode_openmp/gfx90a/a.bc",
        target = "bitcode_openmp",
    )
    actions_test(
        name = "bitcode_openmp_cpu_test",
        mnemonic = "OffloadOpenMpCompile",
        not_in_argv = ["-mlink-builtin-bitcode"],
        output = "bitcode_openmp/x86_64-unknown-linux-gnu/a.o",
        target = "bitcode_openmp",
    )
    tests = [
        "bitcode_c_test",
        "bitcode_hip_test",
        "bitcode_library_test",
        "bitcode_ll_test",
        "bitcode_merge_test",
        "bitcode_not_for_host_test",
        "bitcode_openmp_cpu_test",
        "bitcode_openmp_test",
        "bitcode_provides_test",
        "bitcode_used_test",
    ]
    for test, message, rule, attributes in [
        ("bitcode_empty_test", "{}: device_bitcode_library: srcs is empty: add sources or bitcode", device_bitcode_library, {"srcs": []}),
        ("bitcode_other_arch_test", "{}: hip_code_objects: device_deps: //tests/analysis:bitcode is not compiled for gfx1100, but for gfx90a, gfx942:xnack+: set the same offload_archs for both", hip_code_objects, {"device_deps": [":bitcode"], "offload_archs": ["gfx1100"], "srcs": ["a.hip"]}),
        ("bitcode_feature_test", "device_deps: //tests/analysis:bitcode is not compiled for gfx942:xnack-", hip_code_objects, {"device_deps": [":bitcode"], "offload_archs": ["gfx942:xnack-"], "srcs": ["a.hip"]}),
        ("bitcode_triple_test", "arch_srcs: \"x86_64-pc-linux-gnu\" is not an AMD GPU, expected a target ID such as gfx90a", device_bitcode_library, {"arch_srcs": {"x86_64-pc-linux-gnu": ["lib/isa_90a.bc"]}, "srcs": ["lib/isa_90a.bc"]}),
        ("bitcode_others_test", "arch_srcs: \"//conditions:default\" is not an AMD GPU: name each target that the files are for, such as gfx90a", device_bitcode_library, {"arch_srcs": {"//conditions:default": ["lib/isa_90a.bc"]}, "srcs": ["lib/isa_90a.bc"]}),
        ("bitcode_rdc_test", "{}: hip_code_objects: device_deps requires rdc = True for //tests/analysis:bitcode_kernels", hip_code_objects, {"device_deps": [":bitcode", ":bitcode_kernels"], "offload_archs": ["gfx90a"], "srcs": ["a.hip"]}),
    ]:
        failure_test(
            name = test,
            message = message,
            rule = rule,
            **attributes
        )
        tests.append(test)
    native.test_suite(
        name = name,
        tests = tests,
    )
