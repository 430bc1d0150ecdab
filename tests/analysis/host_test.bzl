"""Analysis tests of host compilations: flags of the C++ toolchain, and which of them hold for device code."""

load("@rules_cc//cc:action_names.bzl", "ACTION_NAMES")
load("@rules_cc//cc:cc_toolchain_config_lib.bzl", "env_entry", "env_set", "feature", "flag_group", "flag_set", "tool_path")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/toolchains:cc_toolchain_config_info.bzl", "CcToolchainConfigInfo")
load("//rules:defs.bzl", "cuda_ptx", "device_bitcode_library", "hip_code_objects", "hip_library", "openmp_library")
load(":testing.bzl", "actions_test_with", "provides_test")

_COMPILE = [ACTION_NAMES.c_compile, ACTION_NAMES.cpp_compile]

def _feature(name, flags, enabled = False, actions = _COMPILE):
    return feature(
        name = name,
        enabled = enabled,
        flag_sets = [flag_set(
            actions = actions,
            flag_groups = [flag_group(flags = flags)],
        )],
    )

def _cc_toolchain_config_impl(ctx):
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        compiler = "clang",
        cxx_builtin_include_directories = [],
        features = [
            _feature("defaults", ["--target=aarch64-linux-musl", "-nostdinc++", "-isystem", "libcxx", "-mcpu=neoverse-n1", "-flto", "-x", "c++", "-Wall"], enabled = True),
            _feature("standard", ["-std=c++20"], enabled = True, actions = [ACTION_NAMES.cpp_compile]),
            _feature("dbg", ["-g", "-gsplit-dwarf"]),
            _feature("opt", ["-O2", "-DNDEBUG"]),
            _feature("asan", ["-fsanitize=address"]),
            # As in Bazel's own toolchain for clang: its compilations alone have these variables.
            _feature("module_maps", ["-fmodule-name=%{module_name}"], enabled = True),
            feature(name = "pic", enabled = True, flag_sets = [flag_set(
                actions = _COMPILE,
                flag_groups = [flag_group(flags = ["-fPIC"], expand_if_available = "pic")],
            )]),
            feature(name = "user", enabled = True, flag_sets = [flag_set(
                actions = _COMPILE,
                flag_groups = [flag_group(flags = ["%{user_compile_flags}"], expand_if_available = "user_compile_flags", iterate_over = "user_compile_flags")],
            )]),
            feature(name = "environment", enabled = True, env_sets = [env_set(
                actions = _COMPILE,
                env_entries = [env_entry(key = "CC_TOOLCHAIN", value = "aarch64")],
            )]),
            feature(name = "supports_pic", enabled = True),
        ],
        target_cpu = "aarch64",
        target_libc = "musl",
        target_system_name = "aarch64-linux-musl",
        tool_paths = [tool_path(name = tool, path = "/bin/false") for tool in ["ar", "cpp", "gcc", "gcov", "ld", "nm", "objdump", "strip"]],
        toolchain_identifier = "aarch64",
    )

# What a toolchain for another machine says of itself.
cc_toolchain_config = rule(
    implementation = _cc_toolchain_config_impl,
    provides = [CcToolchainConfigInfo],
)

_USER = {
    "//command_line_option:conlyopt": ["-DCONLY"],
    "//command_line_option:copt": ["-DCOPT=1", "-O1", "-fno-canonical-system-headers", "-mavx2", "-fno-tree-sra", "-fstack-protector-all", "-include", "tests/analysis/a.h"],
    "//command_line_option:cxxopt": ["-std=c++23"],
}
_user_test = actions_test_with(_USER)
_values_test = actions_test_with({"//command_line_option:copt": ["-Xarch_host", "-mavx2", "-DX", "-working-directory", "-mfma", "-fsanitize=undefined"]})
_SETTINGS = "//rules/settings:"
_amdgpu_test = actions_test_with({"//command_line_option:copt": ["-munsafe-fp-atomics", "-mcumode", "-mavx2", "-mllvm", "-option"]})
_settings_test = actions_test_with({
    str(Label(_SETTINGS + "device_keep_copts")): ["default", "-fsanitize=undefined", "-D_FORTIFY_SOURCE"],
    str(Label(_SETTINGS + "explain_flags")): True,
    str(Label(_SETTINGS + "host_skip_copts")): ["default", "-fmine"],
    "//command_line_option:copt": ["-fsanitize=undefined", "-fsanitize=address", "-D_FORTIFY_SOURCE=3", "-fmine=1", "-flto"],
})
_features_test = actions_test_with({"//command_line_option:features": ["asan"]})
_dbg_test = actions_test_with({"//command_line_option:compilation_mode": "dbg"})
_opt_test = actions_test_with({"//command_line_option:compilation_mode": "opt"})
_CROSS = {
    "//command_line_option:extra_toolchains": [str(Label("//tests/analysis:aarch64_cc")), str(Label("//tests/analysis:clang_toolchain"))],
    "//command_line_option:platforms": str(Label("//tests/analysis:aarch64")),
}
_cross_test = actions_test_with(_CROSS)
_cross_user_test = actions_test_with(_CROSS | _USER)
_no_pic_test = actions_test_with(_CROSS | {"//command_line_option:features": ["-supports_pic"]})
_cross_dbg_test = actions_test_with(_CROSS | {"//command_line_option:compilation_mode": "dbg"})

def host_tests(name):
    """Flags of host compilations.

    Args:
      name: name of the test suite.
    """
    hip_library(
        name = "host_hip",
        srcs = ["a.hip"],
        hdrs = ["a.h"],
        copts = ["-both"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    hip_library(
        name = "host_hip_features",
        srcs = ["a.hip"],
        features = ["asan", "-opt"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    hip_code_objects(
        name = "host_code_objects",
        srcs = ["a.hip"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    device_bitcode_library(
        name = "host_bitcode",
        srcs = ["a.c", "a.hip"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    cuda_ptx(
        name = "host_cuda",
        srcs = ["a.cu"],
        offload_archs = ["sm_70"],
        tags = ["manual"],
    )
    openmp_library(
        name = "host_openmp",
        srcs = ["a.c", "sub/a.cc"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    openmp_library(
        name = "host_openmp_cpu",
        srcs = ["a.c"],
        offload_archs = ["x86_64-pc-linux-gnu"],
        tags = ["manual"],
    )
    hip_library(
        name = "host_two",
        srcs = ["a.hip"],
        linkopts = ["-own"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
        deps = [":host_hip", ":host_openmp"],
    )
    provides_test(
        name = "host_link_flags_test",
        program_link_flags = ["-own", "-Xlinker -host-link-flag -Xlinker -second"],
        target = "host_two",
    )
    tests = ["host_link_flags_test"]
    hip_host = ("host_hip", "OffloadHipHostCompile", "host_hip/host/a.o")
    hip_device = ("host_hip", "OffloadHipCompile", "host_hip/gfx942/a.o")
    features_host = ("host_hip_features", "OffloadHipHostCompile", "host_hip_features/host/a.o")
    features_device = ("host_hip_features", "OffloadHipCompile", "host_hip_features/gfx942/a.o")
    includes = ("host_openmp", "OffloadOpenMpIncludes", "host_openmp/a.full.c")
    host_ir = ("host_openmp", "OffloadOpenMpHostCompile", "host_openmp/host/a.bc")
    host_ir_cxx = ("host_openmp", "OffloadOpenMpHostCompile", "host_openmp/host/sub/a.bc")
    host_object = ("host_openmp", "OffloadOpenMpHostObject", "host_openmp/host/a.o")
    openmp_device = ("host_openmp", "OffloadOpenMpCompile", "host_openmp/gfx942/a.bc")
    cpu_device = ("host_openmp_cpu", "OffloadOpenMpCompile", "host_openmp_cpu/x86_64-pc-linux-gnu/a.o")
    host_only = ["-mavx2", "-fstack-protector-all"]
    gcc_only = ["-fno-canonical-system-headers", "-fno-tree-sra"]
    for case, test, action, kwargs in [
        ("user_hip", _user_test, hip_host, {"argv": ["-x hip --target=x86_64-unknown-linux-gnu -host-flag", "-DCOPT=1 -O1 -mavx2 -fstack-protector-all -include tests/analysis/a.h -std=c++23", "-fPIC", "-both -o"], "env": {"PWD": "/proc/self/cwd"}, "not_in_argv": gcc_only + ["-DCONLY", "-toolchain-flag", "-fastbuild-flag"]}),
        ("user_hip_device", _user_test, hip_device, {"argv": ["-DCOPT=1 -O1 -include tests/analysis/a.h -std=c++23 -both", "-toolchain-flag -fastbuild-flag"], "not_in_argv": gcc_only + host_only + ["-DCONLY", "-host-flag"]}),
        ("user_code_objects", _user_test, ("host_code_objects", "OffloadHipCompile", "host_code_objects/gfx942/a.o"), {"argv": ["-DCOPT=1 -O1 -include tests/analysis/a.h -std=c++23"], "not_in_argv": gcc_only + host_only}),
        ("user_cuda", _user_test, ("host_cuda", "OffloadCudaCompile", "host_cuda/sm_70.ptx"), {"argv": ["-DCOPT=1 -O1 -include tests/analysis/a.h -std=c++23"], "not_in_argv": gcc_only + host_only}),
        ("user_openmp_includes", _user_test, includes, {"argv": ["-DCOPT=1", "-DCONLY"], "not_in_argv": ["-std=c++23"]}),
        ("user_openmp_ir", _user_test, host_ir, {"argv": ["-DCOPT=1", "-DCONLY"], "env": {"PWD": "/proc/self/cwd"}, "not_in_argv": ["-std=c++23", "-toolchain-flag"]}),
        ("user_openmp_ir_cxx", _user_test, host_ir_cxx, {"argv": ["-DCOPT=1", "-std=c++23"], "not_in_argv": ["-DCONLY"]}),
        ("user_openmp_object", _user_test, host_object, {"argv": ["-mavx2"], "in_order": ["-host-flag", "-DCOPT=1", "-mavx2"], "not_in_argv": ["-toolchain-flag"]}),
        ("user_openmp_link", _user_test, ("host_openmp", "OffloadDeviceLink", "host_openmp/gfx942.img"), {"argv": ["-O1"], "not_in_argv": host_only}),
        ("user_openmp_device", _user_test, openmp_device, {"argv": ["-DCOPT=1", "-DCONLY"], "not_in_argv": host_only + ["-host-flag", "-std=c++23"]}),
        # A CPU like that of the host has its instructions.
        ("user_openmp_cpu", _user_test, cpu_device, {"argv": ["-DCOPT=1", "-mavx2"], "not_in_argv": gcc_only + ["-fstack-protector-all", "-std=c++23"]}),
        ("cross_openmp_cpu", _cross_user_test, cpu_device, {"argv": ["-DCOPT=1"], "not_in_argv": ["-mavx2", "-mcpu=neoverse-n1"]}),
        # Values in separate words stay with their flags, and only these.
        ("values_hip", _values_test, hip_host, {"argv": ["-Xarch_host -mavx2 -DX -working-directory -mfma -fsanitize=undefined"]}),
        ("values_hip_device", _values_test, hip_device, {"argv": ["-Xarch_host -mavx2 -DX -working-directory -mfma"], "not_in_argv": ["-fsanitize=undefined"]}),
        ("values_openmp_device", _values_test, openmp_device, {"argv": ["-DX -working-directory -mfma"], "not_in_argv": ["-mavx2", "-Xarch_host"]}),
        ("amdgpu_device", _amdgpu_test, hip_device, {"argv": ["-munsafe-fp-atomics -mcumode -mllvm -option"], "not_in_argv": ["-mavx2"]}),
        ("amdgpu_code_objects", _amdgpu_test, ("host_code_objects", "OffloadHipCompile", "host_code_objects/gfx942/a.o"), {"argv": ["-munsafe-fp-atomics -mcumode -mllvm -option"], "not_in_argv": ["-mavx2"]}),
        ("amdgpu_openmp", _amdgpu_test, openmp_device, {"argv": ["-munsafe-fp-atomics -Xclang -target-feature -Xclang +cumode -mllvm -option"], "not_in_argv": ["-mavx2"]}),
        ("settings_host", _settings_test, hip_host, {"argv": ["-fsanitize=undefined -fsanitize=address -D_FORTIFY_SOURCE=3"], "not_in_argv": ["-fmine=1", "-flto"]}),
        ("settings_device", _settings_test, hip_device, {"argv": ["-fsanitize=undefined -D_FORTIFY_SOURCE=3 -fmine=1"], "not_in_argv": ["-fsanitize=address", "-flto"]}),
        ("feature_hip", _features_test, hip_host, {"argv": ["-fsanitize=address"]}),
        ("feature_hip_device", _features_test, hip_device, {"not_in_argv": ["-fsanitize=address"]}),
        ("feature_attribute", _opt_test, features_host, {"argv": ["-fsanitize=address"], "not_in_argv": ["-O2"]}),
        ("feature_openmp", _features_test, host_object, {"argv": ["-fsanitize=address"]}),
        ("dbg_hip", _dbg_test, hip_host, {"argv": ["-g"], "not_in_argv": ["-dbg-flag"]}),
        ("dbg_hip_device", _dbg_test, hip_device, {"argv": ["-dbg-flag"], "not_in_argv": ["-g"]}),
        ("opt_hip", _opt_test, hip_host, {"argv": ["-O2", "-DNDEBUG"], "not_in_argv": ["-opt-flag"]}),
        ("cross_hip", _cross_test, hip_host, {
            "argv": ["--target=aarch64-unknown-linux-gnu", "--target=aarch64-linux-musl -nostdinc++ -isystem libcxx -mcpu=neoverse-n1 -Wall -std=c++20", "-fPIC"],
            "flag_values": {"-isystem": ["libcxx"], "-std": ["c++20"], "-x": ["hip"]},
            "no_flag_values": {"-x": ["c++"]},
            "env": {"CC_TOOLCHAIN": "aarch64"},
            "inputs": ["tests/analysis/sysroot/usr/include/stdio.h"],
            "not_in_argv": ["-flto", "-fmodule-name=", "c++"],
        }),
        ("no_pic", _no_pic_test, hip_host, {"argv": ["-std=c++20 --rocm-path=tests/analysis/rocm --offload-host-only -fPIC -c"]}),
        ("cross_hip_device", _cross_test, hip_device, {"argv": ["-x hip --target=aarch64-unknown-linux-gnu", "--target=aarch64-linux-musl -nostdinc++ -isystem libcxx -std=c++20"], "inputs": ["tests/analysis/sysroot/usr/include/stdio.h"], "not_in_argv": ["-mcpu=neoverse-n1", "-Wall"]}),
        ("cross_code_objects", _cross_test, ("host_code_objects", "OffloadHipCompile", "host_code_objects/gfx942/a.o"), {"argv": ["-x hip --target=aarch64-unknown-linux-gnu", "--target=aarch64-linux-musl -nostdinc++ -isystem libcxx -std=c++20"], "inputs": ["tests/analysis/sysroot/usr/include/stdio.h"]}),
        ("cross_cuda", _cross_test, ("host_cuda", "OffloadCudaCompile", "host_cuda/sm_70.ptx"), {"argv": ["-x cuda --target=aarch64-unknown-linux-gnu", "--target=aarch64-linux-musl -nostdinc++ -isystem libcxx -std=c++20"], "inputs": ["tests/analysis/sysroot/usr/include/stdio.h"]}),
        ("cross_bitcode_c", _cross_test, ("host_bitcode", "OffloadBitcodeCompile", "host_bitcode/gfx942/a.bc"), {"argv": ["-nostdinc++ -isystem libcxx"], "inputs": ["tests/analysis/sysroot/usr/include/stdio.h"], "not_in_argv": ["--target=aarch64-unknown-linux-gnu", "--target=aarch64-linux-musl"]}),
        ("cross_bitcode_hip", _cross_test, ("host_bitcode", "OffloadBitcodeCompile", "host_bitcode/gfx942/a_hip.bc"), {"argv": ["-x hip --target=aarch64-unknown-linux-gnu", "--target=aarch64-linux-musl -nostdinc++ -isystem libcxx -std=c++20"], "inputs": ["tests/analysis/sysroot/usr/include/stdio.h"]}),
        ("cross_hip_features", _cross_test, features_device, {"not_in_argv": ["-fsanitize=address"]}),
        ("cross_register", _cross_test, ("host_hip", "OffloadRegister", "host_hip/host/a.fatbin.o"), {"argv": ["--triple=aarch64-unknown-linux-gnu"]}),
        ("cross_openmp", _cross_test, host_ir, {"argv": ["--target=aarch64-unknown-linux-gnu"]}),
        ("cross_dbg", _cross_dbg_test, hip_host, {"argv": ["-g"], "not_in_argv": ["-gsplit-dwarf"]}),
    ]:
        target, mnemonic, output = action
        test(
            name = "host_{}_test".format(case),
            size = "small",
            mnemonic = mnemonic,
            output = output,
            target_under_test = target,
            **kwargs
        )
        tests.append("host_{}_test".format(case))
    native.test_suite(
        name = name,
        tests = tests,
    )
