"""Analysis tests of offload_prune, offload_kpack, offload_wheel, hip_binary, hip_test and the selects on what is turned on."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@rules_cc//cc:defs.bzl", "cc_import", "cc_library")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:defs.bzl", "hip_binary", "hip_test", "if_hip", "offload_kpack", "offload_prune", "offload_wheel", "requires_hip")
load(":testing.bzl", "actions_test", "failure_test", "provides_test")

_SETTING = str(Label("//rules/settings:hip"))

def _linked_test_impl(ctx):
    env = analysistest.begin(ctx)
    inputs = analysistest.target_under_test(env)[CcInfo].linking_context.linker_inputs.to_list()
    got = [
        library.resolved_symlink_dynamic_library.short_path.removeprefix(ctx.label.package + "/")
        for linker_input in inputs
        for library in linker_input.libraries
        if library.resolved_symlink_dynamic_library
    ]
    asserts.equals(env, ctx.attr.libraries, got)
    return analysistest.end(env)

_linked_test = analysistest.make(
    _linked_test_impl,
    attrs = {"libraries": attr.string_list()},
)

def _files_test_impl(ctx):
    env = analysistest.begin(ctx)
    files = analysistest.target_under_test(env)[DefaultInfo].files.to_list()
    asserts.equals(env, ctx.attr.files, [file.basename for file in files])
    return analysistest.end(env)

_files_without_hip_test = analysistest.make(
    _files_test_impl,
    attrs = {"files": attr.string_list()},
    config_settings = {_SETTING: False},
)

_files_test = analysistest.make(
    _files_test_impl,
    attrs = {"files": attr.string_list()},
)

def programs_tests(name):
    """Actions, providers and failures of rules for programs and built files.

    Args:
      name: name of the test suite.
    """
    native.genrule(
        name = "shared_file",
        outs = ["libshared.so"],
        cmd = "touch $@",
        tags = ["manual"],
    )
    cc_import(
        name = "shared",
        hdrs = ["a.h"],
        shared_library = ":shared_file",
        tags = ["manual"],
    )
    offload_prune(
        name = "pruned_file",
        src = ":shared_file",
        compress = "zstd",
        offload_archs = ["gfx942", "gfx90a:xnack+"],
        tags = ["manual"],
    )
    actions_test(
        name = "prune_file_test",
        argv = ["prune --input=BIN/tests/analysis/libshared.so --output=BIN/tests/analysis/pruned_file/libshared.so --keep=gfx942,gfx90a:xnack+ --compress"],
        count = 1,
        inputs = ["tests/analysis/libshared.so"],
        mnemonic = "OffloadPrune",
        output = "pruned_file/libshared.so",
        target = "pruned_file",
    )
    provides_test(
        name = "prune_file_provides_test",
        files = ["pruned_file/libshared.so"],
        runfiles = ["pruned_file/libshared.so"],
        target = "pruned_file",
    )
    offload_prune(
        name = "pruned_import",
        src = ":shared",
        allow_missing = True,
        offload_archs = ["gfx942", "sm_90"],
        tags = ["manual"],
    )
    actions_test(
        name = "prune_import_test",
        argv = ["--keep=gfx942,sm_90 --ignore-missing"],
        count = 1,
        mnemonic = "OffloadPrune",
        output = "pruned_import/libshared.so",
        target = "pruned_import",
    )
    _linked_test(
        name = "prune_import_linked_test",
        size = "small",
        libraries = ["pruned_import/libshared.so"],
        target_under_test = ":pruned_import",
    )
    cc_library(
        name = "pruned_src",
        srcs = ["a.c"],
        additional_linker_inputs = ["a.h"],
        data = ["host.o"],
        linkopts = ["-lm", "-Wl,--version-script=$(location a.h)"],
        tags = ["manual"],
        deps = [":pruned_src_below"],
    )
    cc_library(
        name = "pruned_src_below",
        data = ["a.cu"],
        linkopts = ["-ldl"],
        tags = ["manual"],
    )
    offload_prune(
        name = "pruned_linked",
        src = ":pruned_src",
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    provides_test(
        name = "prune_linked_test",
        link_flags = ["-lm", "-Wl,--version-script=tests/analysis/a.h"],
        link_inputs = ["a.h"],
        runfiles = ["a.cu", "host.o", "pruned_linked/libpruned_src.so"],
        target = "pruned_linked",
    )
    offload_kpack(
        name = "split",
        src = ":shared_file",
        complete = True,
        group = "math",
        offload_archs = ["gfx942", "gfx90a:xnack+"],
        tags = ["manual"],
    )
    actions_test(
        name = "kpack_test",
        argv = ["kpack split --input=BIN/tests/analysis/libshared.so --output=BIN/tests/analysis/split/lib/libshared.so --kpack-dir=BIN/tests/analysis/split/.kpack --group=math --kernel-name=libshared.so --scheme=zstd --archs=gfx942,gfx90a:xnack+ --complete"],
        count = 1,
        inputs = ["tests/analysis/libshared.so"],
        mnemonic = "OffloadKpack",
        output = "split/lib/libshared.so",
        target = "split",
    )
    provides_test(
        name = "kpack_provides_test",
        files = ["split/lib/libshared.so", "split/.kpack/math_gfx942.kpack", "split/.kpack/math_gfx90a:xnack+.kpack"],
        runfiles = ["split/lib/libshared.so", "split/.kpack/math_gfx942.kpack", "split/.kpack/math_gfx90a:xnack+.kpack"],
        target = "split",
    )
    failure_test(
        name = "kpack_nothing_test",
        src = ":shared_file",
        message = "{}: offload_kpack: no architectures: set offload_archs",
        rule = offload_kpack,
    )
    failure_test(
        name = "kpack_folder_test",
        src = ":shared_file",
        kpack_dir = "../kpack",
        message = "{}: offload_kpack: kpack_dir: ../kpack is not a directory below that of the target; name a directory such as .kpack",
        offload_archs = ["gfx942"],
        rule = offload_kpack,
    )
    native.genrule(
        name = "wheel_file",
        outs = ["math-1.0-py3-none-any.whl"],
        cmd = "touch $@",
        tags = ["manual"],
    )
    offload_wheel(
        name = "wheels",
        src = ":wheel_file",
        complete = True,
        compress = "none",
        device_name = "amd-math-device",
        families = {"mi300": ["gfx942", "gfx950"]},
        offload_archs = ["gfx942", "gfx950", "gfx1100"],
        tags = ["manual"],
    )
    actions_test(
        name = "wheel_test",
        argv = ["wheel split --input=BIN/tests/analysis/math-1.0-py3-none-any.whl --output-dir=BIN/tests/analysis/wheels --scheme=none --archs=gfx942,gfx950,gfx1100 --family=mi300=gfx942,gfx950 --device-name=amd-math-device --complete"],
        count = 1,
        inputs = ["tests/analysis/math-1.0-py3-none-any.whl"],
        mnemonic = "OffloadWheel",
        output = "wheels",
        target = "wheels",
    )
    failure_test(
        name = "wheel_src_test",
        src = ":shared_file",
        message = "{}: offload_wheel: src: //tests/analysis:shared_file has 0 wheels, expected one file .whl; name the target of a py_wheel, or a file",
        rule = offload_wheel,
    )
    failure_test(
        name = "wheel_name_test",
        src = ":wheel_file",
        device_name = "gpu",
        message = "{}: offload_wheel: device_name: found gpu, expected a name that ends in -device; write gpu-device",
        rule = offload_wheel,
    )
    failure_test(
        name = "wheel_family_test",
        src = ":wheel_file",
        families = {"mi300": []},
        message = "{}: offload_wheel: families: mi300 is empty; name its GPUs",
        rule = offload_wheel,
    )
    cc_library(
        name = "headers_alone",
        hdrs = ["a.h"],
        tags = ["manual"],
    )
    failure_test(
        name = "prune_headers_test",
        src = ":headers_alone",
        message = "{}: offload_prune: src: //tests/analysis:headers_alone has no library: name the target that has it, or a file",
        offload_archs = ["gfx942"],
        rule = offload_prune,
    )
    failure_test(
        name = "prune_nothing_test",
        src = ":shared_file",
        message = "{}: offload_prune: nothing to do: set offload_archs",
        rule = offload_prune,
    )
    hip_binary(
        name = "program",
        srcs = ["a.hip"],
        args = ["--quick"],
        copts = ["-DOPTION"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    actions_test(
        name = "hip_binary_test",
        argv = ["-DOPTION"],
        mnemonic = "OffloadHipHostCompile",
        output = "program_hip/host/a.o",
        target = "program_hip",
    )
    hip_binary(
        name = "located",
        srcs = ["a.hip"],
        copts = ["-DFILE=$(location index.dat)"],
        data = ["index.dat"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    actions_test(
        name = "hip_binary_data_test",
        argv = ["-DFILE=tests/analysis/index.dat"],
        mnemonic = "OffloadHipHostCompile",
        target = "located_hip",
    )
    hip_test(
        name = "gpu_test",
        size = "small",
        srcs = ["a.hip"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    hip_binary(
        name = "mixed",
        srcs = ["a.hip", "a.c"],
        copts = ["-std=c++20", "-DOPTION"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    actions_test(
        name = "hip_binary_c_test",
        argv = ["-x c --target=x86_64-unknown-linux-gnu", "-fPIC -c", "-DOPTION -o BIN/tests/analysis/mixed_hip/c/a.o tests/analysis/a.c"],
        count = 2,
        mnemonic = "OffloadHipHostCompile",
        not_in_argv = ["-std=c++20", "--offload-host-only"],
        output = "mixed_hip/c/a.o",
        target = "mixed_hip",
    )
    actions_test(
        name = "hip_binary_c_device_test",
        count = 1,
        mnemonic = "OffloadHipCompile",
        target = "mixed_hip",
    )
    hip_test(
        name = "pool_test",
        srcs = ["a.hip"],
        additional_linker_inputs = ["a.h"],
        device_linkopts = ["-T$(location a.h)"],
        exec_properties = {
            "Everything": "1",
            "test.Pool": "mi300",
        },
        library_exec_properties = {
            "Everything": "1",
            "compile.Pool": "large",
        },
        linkopts = ["-Wl,--version-script=$(location a.h)"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    actions_test(
        name = "hip_test_program_link_test",
        argv = ["-Wl,--version-script=tests/analysis/a.h"],
        inputs = ["tests/analysis/a.h"],
        mnemonic = "CppLink",
        output = "pool_test_program",
        system_tool = True,
        target = "pool_test_program",
    )
    actions_test(
        name = "hip_test_device_link_test",
        argv = ["-Ttests/analysis/a.h"],
        inputs = ["tests/analysis/a.h"],
        mnemonic = "OffloadDeviceLink",
        output = "pool_test_hip/gfx942.co",
        target = "pool_test_hip",
    )
    provides_test(
        name = "hip_test_provides_test",
        files = ["gpu_test"],
        target = "gpu_test",
    )
    native.filegroup(
        name = "chosen",
        srcs = if_hip(["a.hip"], ["a.c"]),
    )
    _files_test(
        name = "if_hip_test",
        size = "small",
        files = ["a.hip"],
        target_under_test = ":chosen",
    )
    _files_without_hip_test(
        name = "if_hip_off_test",
        size = "small",
        files = ["a.c"],
        target_under_test = ":chosen",
    )
    native.filegroup(
        name = "needs_hip",
        srcs = ["a.hip"],
        target_compatible_with = requires_hip(),
    )
    _files_test(
        name = "requires_hip_test",
        size = "small",
        files = ["a.hip"],
        target_under_test = ":needs_hip",
    )
    native.test_suite(name = name)
