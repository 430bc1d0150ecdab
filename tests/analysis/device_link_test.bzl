"""Analysis tests of how device code is linked: for each source, for a target, for a program; and of flags for architectures."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//rules:defs.bzl", "cuda_ptx", "hip_code_objects", "hip_device_link", "hip_library", "offload_archive", "offload_bundle", "offload_unbundle", "openmp_library")
load(":testing.bzl", "actions_test", "failure_test", "one_argument", "provides_test")

_LEVELS = {
    "gfx90a": ["-O1"],
    "gfx942:xnack+": ["-never"],
    "gfx942": ["-mllvm -option", "-Wextra"],
    "nvptx64-nvidia-cuda": ["-never"],
    "x86_64-pc-linux-gnu": ["-mavx2"],
}

def device_link_tests(name):
    """Actions, providers and failures of device links.

    Args:
      name: name of the test suite.
    """
    hip_library(
        name = "alone",
        srcs = ["a.hip", "a.cu"],
        hdrs = ["a.h"],
        offload_archs = ["gfx90a", "gfx942"],
        tags = ["manual"],
    )
    actions_test(
        name = "alone_device_test",
        argv = ["-S -Xclang -emit-obj"],
        count = 4,
        mnemonic = "OffloadHipCompile",
        not_in_argv = ["-fgpu-rdc"],
        output = "alone/gfx942/a.o",
        target = "alone",
    )
    actions_test(
        name = "alone_link_test",
        argv = ["-o BIN/tests/analysis/alone/gfx942/a_cu.co BIN/tests/analysis/alone/gfx942/a_cu.o"],
        count = 4,
        mnemonic = "OffloadDeviceLink",
        not_in_argv = ["-flto", "BIN/tests/analysis/alone/gfx942/a.o"],
        output = "alone/gfx942/a_cu.co",
        target = "alone",
    )
    actions_test(
        name = "alone_bundle_test",
        argv = ["--entry=hipv4-amdgcn-amd-amdhsa--gfx90a=BIN/tests/analysis/alone/gfx90a/a.co --entry=hipv4-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/alone/gfx942/a.co"],
        count = 2,
        mnemonic = "OffloadBundle",
        output = "alone/a.hipfb",
        target = "alone",
    )
    actions_test(
        name = "alone_host_test",
        argv = ["--offload-host-only -fPIC -c"],
        count = 2,
        mnemonic = "OffloadHipHostCompile",
        not_in_argv = ["-fgpu-rdc", "--offload-new-driver"],
        output = "alone/host/a.o",
        target = "alone",
    )
    actions_test(
        name = "alone_register_test",
        argv = [
            "register --kind=hip --triple=x86_64-unknown-linux-gnu",
            "--output=BIN/tests/analysis/alone/host/a.fatbin.o --referenced-by=BIN/tests/analysis/alone/host/a.o BIN/tests/analysis/alone/a.hipfb",
        ],
        count = 2,
        inputs = ["tests/analysis/alone/a.hipfb"],
        mnemonic = "OffloadRegister",
        output = "alone/host/a.fatbin.o",
        target = "alone",
    )
    offload_archive(
        name = "archive_of_alone",
        bundles = [":alone"],
        tags = ["manual"],
    )
    actions_test(
        name = "archive_of_alone_test",
        argv = ["BIN/tests/analysis/alone/a.hipfb BIN/tests/analysis/alone/a_cu.hipfb"],
        mnemonic = "OffloadArchive",
        output = "libarchive_of_alone.a",
        target = "archive_of_alone",
    )
    failure_test(
        name = "unbundle_alone_test",
        bundle = ":alone",
        message = "{}: offload_unbundle: bundle: //tests/analysis:alone has a bundle for each of its 2 sources, expected one bundle; set rdc = True, or use a target for each source",
        targets = ["gfx942"],
        rule = offload_unbundle,
    )
    failure_test(
        name = "bundle_alone_test",
        images = [":alone"],
        message = "{}: offload_bundle: two images for gfx90a: from //tests/analysis:alone and from //tests/analysis:alone",
        rule = offload_bundle,
    )

    # Flags for some of the compilations of clang's driver, and features of processors.
    hip_code_objects(
        name = "for_device",
        srcs = ["a.hip"],
        copts = ["-O3 -Xarch_device -O1 -Xarch_host -O0 -Xarch_gfx942 -Os -mwavefrontsize64"],
        offload_archs = ["gfx942", "gfx1100"],
        rdc = True,
        tags = ["manual"],
    )
    actions_test(
        name = "for_device_link_test",
        argv = ["-O3 -O1 -mwavefrontsize64"],
        mnemonic = "OffloadDeviceLink",
        not_in_argv = ["-O0", "-Os"],
        output = "for_device/gfx1100.co",
        target = "for_device",
    )
    actions_test(
        name = "for_device_link_of_processor_test",
        argv = ["-O3 -O1 -Os -mwavefrontsize64"],
        mnemonic = "OffloadDeviceLink",
        output = "for_device/gfx942.co",
        target = "for_device",
    )
    openmp_library(
        name = "for_device_openmp",
        srcs = ["a.c"],
        copts = ["-mcode-object-version=5 -Xarch_host -Dhost -Xopenmp-target=amdgcn-amd-amdhsa -mcumode"],
        offload_archs = ["gfx1100"],
        tags = ["manual"],
    )
    actions_test(
        name = "for_device_openmp_test",
        argv = ["-Xclang -target-feature -Xclang +cumode -Xclang -mcode-object-version=5 -mllvm --amdhsa-code-object-version=5"],
        mnemonic = "OffloadOpenMpCompile",
        not_in_argv = ["-Dhost", "-mcumode"],
        output = "for_device_openmp/gfx1100/a.bc",
        target = "for_device_openmp",
    )

    hip_library(
        name = "unlinked",
        srcs = ["a.hip"],
        device_link = False,
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    cc_library(
        name = "between",
        deps = [":unlinked"],
        tags = ["manual"],
    )
    hip_library(
        name = "unlinked_user",
        srcs = ["a.cu"],
        device_link = False,
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
        deps = [":between"],
    )
    hip_device_link(
        name = "program_code",
        copts = ["-O3"],
        arch_linkopts = {
            "amdgcn-amd-amdhsa": ["-Wl,-y"],
            "gfx90a": ["-never"],
        },
        device_linkopts = ["-Wl,-x"],
        tags = ["manual"],
        deps = [":unlinked_user"],
    )
    actions_test(
        name = "unlinked_test",
        argv = ["--isolate=BIN/tests/analysis/unlinked/host/a.o --suffix=hip_device_link"],
        count = 1,
        mnemonic = "OffloadHipHostCompile",
        output = "unlinked/host/a.o",
        target = "unlinked",
    )
    actions_test(
        name = "unlinked_requires_test",
        argv = [one_argument("hip_device_link of //tests/analysis:unlinked (hip_library with device_link = False)")],
        mnemonic = "OffloadRequire",
        output = "unlinked.require.o",
        target = "unlinked",
    )
    actions_test(
        name = "device_link_link_test",
        argv = [
            "-O3",
            "-flto -Wl,-plugin-opt=-amdgpu-internalize-symbols",
            "-Wl,-x -Wl,-y -o BIN/tests/analysis/program_code/gfx942.co",
            "-Xlinker BIN/tests/analysis/unlinked_user/gfx942/a.bc -Xlinker BIN/tests/analysis/unlinked/gfx942/a.bc",
        ],
        count = 1,
        mnemonic = "OffloadDeviceLink",
        not_in_argv = ["-never"],
        output = "program_code/gfx942.co",
        target = "program_code",
    )
    actions_test(
        name = "device_link_register_test",
        argv = [
            "--entries=llvm_offload_entries_hip_device_link --keep-entries=BIN/tests/analysis/unlinked_user/host/a.o --keep-entries=BIN/tests/analysis/unlinked/host/a.o",
            one_argument("--define=hip_device_link of //tests/analysis:unlinked (hip_library with device_link = False)"),
            one_argument("--define=hip_device_link of //tests/analysis:unlinked_user (hip_library with device_link = False)"),
            "BIN/tests/analysis/program_code.hipfb",
        ],
        count = 1,
        mnemonic = "OffloadRegister",
        output = "program_code.register.o",
        target = "program_code",
    )
    provides_test(
        name = "device_link_provides_test",
        images = ["hipv4-amdgcn-amd-amdhsa--gfx942 program_code/gfx942.co"],
        target = "program_code",
    )
    failure_test(
        name = "device_link_nothing_test",
        message = "{}: hip_device_link: nothing to link: no hip_library in the dependencies has rdc = True and device_link = False",
        rule = hip_device_link,
        deps = [":alone"],
    )
    failure_test(
        name = "device_link_without_rdc_test",
        srcs = ["a.hip"],
        device_link = False,
        message = "{}: hip_library: device_link = False requires rdc = True: without it, the device code of each source is separate",
        offload_archs = ["gfx942"],
        rule = hip_library,
    )
    hip_library(
        name = "unlinked_other",
        srcs = ["a.hip"],
        device_link = False,
        offload_archs = ["gfx90a"],
        rdc = True,
        tags = ["manual"],
    )
    failure_test(
        name = "device_link_archs_test",
        message = "{}: hip_device_link: deps: //tests/analysis:unlinked is compiled for gfx942, and //tests/analysis:unlinked_other for gfx90a: set the same offload_archs for all",
        rule = hip_device_link,
        deps = [":unlinked", ":unlinked_other"],
    )

    hip_code_objects(
        name = "arch_hip",
        srcs = ["a.hip"],
        arch_copts = _LEVELS,
        offload_archs = ["gfx90a:xnack+", "gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    actions_test(
        name = "arch_hip_test",
        argv = ["-O1 -o BIN/tests/analysis/arch_hip/gfx90a_xnack+/a.bc"],
        mnemonic = "OffloadHipCompile",
        not_in_argv = ["-Wextra", "-never"],
        output = "arch_hip/gfx90a_xnack+/a.bc",
        target = "arch_hip",
    )
    actions_test(
        name = "arch_hip_link_test",
        argv = ["-Xlinker -plugin-opt=-option -link-flag -o"],
        mnemonic = "OffloadDeviceLink",
        not_in_argv = ["-Wextra", "-never", "-O1"],
        output = "arch_hip/gfx942.co",
        target = "arch_hip",
    )
    cuda_ptx(
        name = "arch_ptx",
        srcs = ["a.cu"],
        arch_copts = {"sm_70": ["-O1"], "sm_90": ["-O3"]},
        offload_archs = ["sm_70", "sm_90"],
        tags = ["manual"],
    )
    actions_test(
        name = "arch_ptx_test",
        argv = ["-O1 -o BIN/tests/analysis/arch_ptx/sm_70.ptx"],
        mnemonic = "OffloadCudaCompile",
        not_in_argv = ["-O3"],
        output = "arch_ptx/sm_70.ptx",
        target = "arch_ptx",
    )
    openmp_library(
        name = "arch_omp",
        srcs = ["a.c"],
        arch_copts = _LEVELS,
        offload_archs = ["gfx942", "x86_64-pc-linux-gnu"],
        tags = ["manual"],
    )
    actions_test(
        name = "arch_omp_test",
        argv = ["-mavx2 -o BIN/tests/analysis/arch_omp/x86_64-pc-linux-gnu/a.o -"],
        mnemonic = "OffloadOpenMpCompile",
        not_in_argv = ["-Wextra", "-never"],
        output = "arch_omp/x86_64-pc-linux-gnu/a.o",
        target = "arch_omp",
    )
    failure_test(
        name = "arch_unknown_test",
        srcs = ["a.hip"],
        arch_copts = {"navi": ["-O1"]},
        message = "{}: arch_copts: \"navi\" is not a target: name a target ID like gfx90a:xnack+, a processor like gfx90a, or a triple",
        offload_archs = ["gfx942"],
        rule = hip_library,
    )
