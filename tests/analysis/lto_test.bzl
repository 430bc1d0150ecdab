"""Analysis tests of the attribute and setting lto."""

load("//rules:defs.bzl", "device_bitcode_library", "hip_code_objects", "hip_library", "openmp_library")
load(":testing.bzl", "actions_test_with", "failure_test")

_NEW = {"//command_line_option:extra_toolchains": "//tests/analysis:new_toolchain"}
_SETTING = str(Label("//rules/settings:lto"))

_old_test = actions_test_with({})
_old_full_test = actions_test_with({_SETTING: "full"})
_new_test = actions_test_with(_NEW)
_new_none_test = actions_test_with(_NEW | {_SETTING: "none"})
_ASAN = {"//command_line_option:features": ["asan"]}
_asan_old_test = actions_test_with(_ASAN)
_asan_test = actions_test_with(_NEW | _ASAN)

# Flags of compilations.
_OBJECT = "-S -Xclang -emit-obj"
_FULL = "-S -Xclang -emit-llvm-bc -foffload-lto=full"
_BITCODE = "-emit-llvm -c -fno-offload-lto"

def lto_tests(name):
    """Compilations and links with link-time optimization and without.

    Args:
      name: name of the test suite.
    """
    for lto in ["default", "full", "none"]:
        for rdc in [False, True]:
            hip_library(
                name = "lto_{}{}".format(lto, "_rdc" if rdc else ""),
                srcs = ["a.hip"],
                lto = lto,
                offload_archs = ["gfx942"],
                rdc = rdc,
                tags = ["manual"],
            )
    for rdc in [False, True]:
        hip_code_objects(
            name = "lto_objects" + ("_rdc" if rdc else ""),
            srcs = ["a.hip"],
            offload_archs = ["gfx942"],
            rdc = rdc,
            tags = ["manual"],
        )
    openmp_library(
        name = "lto_openmp",
        srcs = ["a.c"],
        offload_archs = ["gfx942", "sm_80"],
        tags = ["manual"],
    )
    tests = []

    def test(rule, name, **kwargs):
        tests.append("lto_" + name + "_test")
        rule(name = tests[-1], size = "small", **kwargs)

    for rule, place, target, words in [
        (_old_test, "old", "default", _OBJECT),
        (_old_test, "old_rdc", "default_rdc", _BITCODE),
        (_old_test, "old_attribute", "full", _FULL),
        (_old_full_test, "old_setting", "default", _FULL),
        (_old_full_test, "old_setting_rdc", "default_rdc", _FULL),
        (_old_full_test, "old_both", "none", _OBJECT),
        (_new_test, "new", "default", _FULL),
        (_new_test, "new_rdc", "default_rdc", _FULL),
        (_new_test, "new_attribute", "none", _OBJECT),
        (_new_test, "new_objects", "objects", _OBJECT),
        (_new_test, "new_objects_rdc", "objects_rdc", _FULL),
        (_new_none_test, "new_setting", "default", _OBJECT),
        (_new_none_test, "new_setting_rdc", "default_rdc", _BITCODE),
        (_new_none_test, "new_both", "full", _FULL),
    ]:
        test(
            rule,
            place,
            argv = [words],
            mnemonic = "OffloadHipCompile",
            not_in_argv = [other.split(" ")[-1] for other in [_OBJECT, _FULL, _BITCODE] if other != words],
            output = "lto_{}/gfx942/a.{}".format(target, "o" if words == _OBJECT else "bc"),
            target_under_test = "lto_" + target,
        )
    lto = "-flto"
    internalized = "-Wl,-plugin-opt=-amdgpu-internalize-symbols"
    for rule, place, target, words in [
        (_old_test, "old_link", "default", []),
        (_old_full_test, "full_link", "default", [lto, internalized]),
        (_new_test, "new_link", "default", [lto]),
        (_new_test, "objects_link", "objects_rdc", [lto, internalized]),
        (_new_test, "none_link", "none", []),
    ]:
        test(
            rule,
            place,
            argv = words,
            mnemonic = "OffloadDeviceLink",
            not_in_argv = [word for word in [lto, internalized] if word not in words],
            output = "lto_{}/gfx942.co".format(target),
            target_under_test = "lto_" + target,
        )
    for rule, place, folder, words, others in [
        (_old_test, "openmp_old", "gfx942", "-emit-llvm -c", "-flto=full"),
        (_new_test, "openmp_new", "gfx942", "-flto=full -c", "-emit-llvm"),
        (_new_none_test, "openmp_none", "gfx942", "-emit-llvm -c", "-flto=full"),
        # Code for NVIDIA GPUs is always that of its driver.
        (_new_test, "openmp_nvidia", "sm_80", "-emit-llvm -c", "-flto=full"),
    ]:
        test(
            rule,
            place,
            argv = [words],
            mnemonic = "OffloadOpenMpCompile",
            not_in_argv = [others],
            output = "lto_openmp/{}/a.bc".format(folder),
            target_under_test = "lto_openmp",
        )

    # AddressSanitizer, which the features of the C++ toolchain or flags enable.
    for case, kwargs in {"flag": {"copts": ["-fsanitize=address"]}, "none": {}}.items():
        hip_library(
            name = "lto_sanitized_" + case,
            srcs = ["a.hip"],
            offload_archs = ["gfx90a:xnack+", "gfx942"],
            tags = ["manual"],
            **kwargs
        )
    checked = "-fsanitize=address -fgpu-sanitize"
    unchecked = "-fno-sanitize=address"
    for rule, place, target, arch, words in [
        (_asan_test, "asan", "none", "gfx90a_xnack+", checked),
        (_asan_test, "asan_without_xnack", "none", "gfx942", unchecked),
        (_asan_test, "asan_flag", "flag", "gfx90a_xnack+", checked),
        (_asan_old_test, "asan_without_library", "none", "gfx90a_xnack+", unchecked),
        (_new_test, "asan_none", "none", "gfx90a_xnack+", ""),
    ]:
        test(
            rule,
            place,
            argv = [words] if words else [],
            mnemonic = "OffloadHipCompile",
            not_in_argv = [other for other in [checked, unchecked] if other != words],
            output = "lto_sanitized_{}/{}/a.{}".format(target, arch, "o" if rule == _asan_old_test else "bc"),
            target_under_test = "lto_sanitized_" + target,
        )
    for case, rule, kwargs, message in [
        ("thin", hip_library, {"lto": "thin"}, "{}: hip_library: lto is \"thin\": with ThinLTO of LLVM 22, a kernel gets no scratch memory for a function of another source"),
        ("thin_openmp", openmp_library, {"lto": "thin", "srcs": ["a.c"]}, "{}: openmp_library: lto is \"thin\""),
        ("value", hip_code_objects, {"lto": "fat"}, "{}: hip_code_objects: lto is \"fat\", expected \"default\", \"none\" or \"full\""),
        ("flag", hip_library, {"copts": ["-foffload-lto=thin"]}, "{}: copts: \"-foffload-lto=thin\": set the attribute lto instead, \"none\" or \"full\""),
        ("no_flag", hip_library, {"device_copts": ["-fno-offload-lto"]}, "{}: device_copts: \"-fno-offload-lto\": set the attribute lto"),
        ("counters", hip_library, {"copts": ["-O2 -fprofile-instr-generate"]}, "{}: copts: \"-fprofile-instr-generate\": device code cannot be instrumented: the rules link no device runtime that writes its counters; for host code, set host_copts"),
        ("counters_openmp", openmp_library, {"copts": ["-fprofile-generate=dir"], "srcs": ["a.c"]}, "{}: copts: \"-fprofile-generate=dir\": device code cannot be instrumented: the rules link no device runtime that writes its counters; for host code, set host_copts"),
        ("counters_device", openmp_library, {"device_copts": ["-Xarch_host", "-fcoverage-mapping", "-Xarch_device", "-fprofile-instr-generate"], "srcs": ["a.c"]}, "{}: device_copts: \"-fprofile-instr-generate\": device code cannot be instrumented"),
        ("counters_cc1", device_bitcode_library, {"copts": ["-Xclang", "-fprofile-instrument=clang"], "srcs": ["a.hip"]}, "{}: copts: \"-fprofile-instrument=clang\": device code cannot be instrumented: the rules link no device runtime that writes its counters; remove the flag"),
        ("coverage", hip_code_objects, {"copts": ["-fcoverage-mapping"]}, "{}: copts: \"-fcoverage-mapping\": device code cannot be instrumented"),
    ]:
        tests.append("lto_{}_test".format(case))
        failure_test(
            name = tests[-1],
            message = message,
            rule = rule,
            **({"offload_archs": ["gfx942"], "srcs": ["a.hip"]} | kwargs)
        )
    native.test_suite(name = name, tests = tests)
