"""Analysis tests of hip_code_objects."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//rules:defs.bzl", "device_bitcode_library", "hip_code_objects", "hip_library", "openmp_library")
load("//rules/private:target_ids.bzl", "target_ids")  # buildifier: disable=bzl-visibility
load(":fixtures.bzl", "directory")
load(":testing.bzl", "actions_test", "failure_test", "provides_test")

def hip_code_objects_tests(name):
    """Actions, providers and failures of hip_code_objects.

    Args:
      name: name of the test suite.
    """
    cc_library(
        name = "hip_lib",
        hdrs = ["lib/lib.h"],
        defines = ["LIB=1"],
        includes = ["lib"],
        tags = ["manual"],
    )
    hip_code_objects(
        name = "hip",
        srcs = ["a.hip", "sub/a.hip", "a.cu"],
        hdrs = ["a.h"],
        copts = ["-Wall"],
        defines = ["OWN=2"],
        includes = ["sub", "..", "../other"],
        device_linkopts = ["-Wl,--no-undefined"],
        offload_archs = ["gfx90a:xnack+:sramecc-", "gfx942"],
        tags = ["manual"],
        deps = [":hip_lib"],
    )
    hip_code_objects(
        name = "hip_rdc",
        srcs = ["a.hip"],
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    actions_test(
        name = "hip_compile_test",
        argv = [
            "tests/analysis/a.h",
            "--unused=BIN/tests/analysis/hip/gfx90a_sramecc-_xnack+/a.o.unused -- tests/analysis/clang.sh -x hip --target=x86_64-unknown-linux-gnu -toolchain-flag -fastbuild-flag --rocm-path=tests/analysis/rocm",
            "--offload-device-only --no-gpu-bundle-output --offload-arch=gfx90a:sramecc-:xnack+ -S -Xclang -emit-obj",
            "-DOWN=2",
            "-DLIB=1",
            "-iquote .",
            "-iquote BIN",
            "-isystem tests/analysis/lib",
            "-I tests/analysis/sub",
            "-I BIN/tests/analysis/sub",
            "-I tests -I BIN/tests -I tests/other -I BIN/tests/other",
            "-Wall -o BIN/tests/analysis/hip/gfx90a_sramecc-_xnack+/a.o tests/analysis/a.hip",
        ],
        count = 6,
        inputs = ["tests/analysis/a.hip", "tests/analysis/a.h", "tests/analysis/lib/lib.h", "tests/analysis/rocm/share/hip/version"],
        mnemonic = "OffloadHipCompile",
        not_in_argv = ["-nogpulib", "-nogpuinc", "-fgpu-rdc", "-opt-flag"],
        output = "hip/gfx90a_sramecc-_xnack+/a.o",
        outputs = ["hip/gfx90a_sramecc-_xnack+/a.o", "hip/gfx90a_sramecc-_xnack+/a.o.unused"],
        target = "hip",
    )
    actions_test(
        name = "hip_same_names_test",
        argv = ["tests/analysis/a.cu"],
        mnemonic = "OffloadHipCompile",
        output = "hip/gfx942/a_cu.o",
        target = "hip",
    )
    actions_test(
        name = "hip_link_test",
        argv = [
            "--target=amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib -Wno-unused-command-line-argument -link-flag -Wl,--no-undefined -o BIN/tests/analysis/hip/gfx942.co " +
            "BIN/tests/analysis/hip/gfx942/a.o BIN/tests/analysis/hip/gfx942/sub/a.o BIN/tests/analysis/hip/gfx942/a_cu.o",
        ],
        count = 2,
        mnemonic = "OffloadDeviceLink",
        output = "hip/gfx942.co",
        target = "hip",
    )
    actions_test(
        name = "hip_rdc_test",
        argv = ["-fgpu-rdc -emit-llvm -c"],
        count = 1,
        mnemonic = "OffloadHipCompile",
        not_in_argv = ["-S", "-emit-obj"],
        output = "hip_rdc/gfx942/a.bc",
        target = "hip_rdc",
    )
    provides_test(
        name = "hip_provides_test",
        files = ["hip/gfx90a_sramecc-_xnack+.co", "hip/gfx942.co"],
        groups = {"gfx90a:sramecc-:xnack+": ["hip/gfx90a_sramecc-_xnack+.co"], "gfx942": ["hip/gfx942.co"]},
        images = [
            "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+ hip/gfx90a_sramecc-_xnack+.co",
            "hipv4-amdgcn-amd-amdhsa--gfx942 hip/gfx942.co",
        ],
        target = "hip",
    )

    # Sources of other kinds.
    native.genrule(
        name = "code_sources",
        outs = ["code/a.s", "code/b.S", "code/c.cl", "code/d.ll", "code/e.bc", "code/f.o"],
        cmd = "touch $(OUTS)",
        tags = ["manual"],
    )
    hip_code_objects(
        name = "hip_code",
        srcs = ["a.hip", "code/a.s", "code/b.S", "code/c.cl", "code/d.ll", "code/e.bc", "code/f.o"],
        hdrs = ["a.h"],
        arch_srcs = {
            "gfx90a": ["code/a.s", "code/f.o"],
            "gfx942": ["code/b.S"],
        },
        copts = ["-Wall", "-std=c++20"],
        defines = ["OWN=2"],
        offload_archs = ["gfx90a", "gfx942:xnack-"],
        tags = ["manual"],
    )
    for test, mnemonic, count, output, argv, not_in_argv in [
        ("assembly", "OffloadCodeCompile", 8, "gfx90a/code/a.o", ["-x assembler -toolchain-flag -fastbuild-flag --target=amdgcn-amd-amdhsa -mcpu=gfx90a -Wno-unused-command-line-argument -c -Wall -o BIN/tests/analysis/hip_code/gfx90a/code/a.o BIN/tests/analysis/code/a.s"], ["-DOWN=2", "-std=c++20"]),
        ("preprocessed", "OffloadCodeCompile", 8, "gfx942_xnack-/code/b.o", ["-x assembler-with-cpp", "-mcpu=gfx942:xnack-", "-DOWN=2", "tests/analysis/a.h", "-c"], ["-std=c++20", "-emit-llvm"]),
        ("opencl", "OffloadCodeCompile", 8, "gfx90a/code/c.o", ["-x cl", "--rocm-path=tests/analysis/rocm", "-DOWN=2", "-Wall -o"], ["-std=c++20", "-emit-llvm"]),
        ("ir", "OffloadCodeCompile", 8, "gfx90a/code/d.o", ["-x ir", "-Wno-unused-command-line-argument -c -o"], ["-DOWN=2", "-Wall"]),
        ("bitcode", "OffloadCodeCompile", 8, "gfx942_xnack-/code/e.o", ["-x ir", "-o BIN/tests/analysis/hip_code/gfx942_xnack-/code/e.o BIN/tests/analysis/code/e.bc"], ["-emit-llvm"]),
        ("object", "OffloadDeviceLink", 2, "gfx90a.co", ["-o BIN/tests/analysis/hip_code/gfx90a.co BIN/tests/analysis/hip_code/gfx90a/a.o BIN/tests/analysis/hip_code/gfx90a/code/a.o " +
                                                         "BIN/tests/analysis/hip_code/gfx90a/code/c.o BIN/tests/analysis/hip_code/gfx90a/code/d.o BIN/tests/analysis/hip_code/gfx90a/code/e.o BIN/tests/analysis/code/f.o"], ["-flto"]),
    ]:
        actions_test(
            name = "hip_code_{}_test".format(test),
            argv = argv,
            count = count,
            mnemonic = mnemonic,
            not_in_argv = not_in_argv,
            output = "hip_code/" + output,
            target = "hip_code",
        )
    hip_code_objects(
        name = "hip_code_rdc",
        srcs = ["a.hip", "code/a.s", "code/c.cl", "code/d.ll"],
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    actions_test(
        name = "hip_code_rdc_test",
        argv = ["-Xlinker BIN/tests/analysis/hip_code_rdc/gfx942/a.bc -Xlinker BIN/tests/analysis/hip_code_rdc/gfx942/code/a.o -Xlinker BIN/tests/analysis/hip_code_rdc/gfx942/code/c.bc -Xlinker BIN/tests/analysis/hip_code_rdc/gfx942/code/d.bc"],
        mnemonic = "OffloadDeviceLink",
        output = "hip_code_rdc/gfx942.co",
        target = "hip_code_rdc",
    )
    actions_test(
        name = "hip_code_rdc_opencl_test",
        argv = ["-x cl", "-emit-llvm -c"],
        count = 3,
        mnemonic = "OffloadCodeCompile",
        output = "hip_code_rdc/gfx942/code/c.bc",
        target = "hip_code_rdc",
    )
    failure_test(
        name = "hip_code_portable_test",
        srcs = ["code/a.s"],
        message = "{}: hip_code_objects: srcs: tests/analysis/code/a.s is for one kind of GPU, not for amdgcnspirv: name its GPUs in arch_srcs, or leave amdgcnspirv out of offload_archs",
        offload_archs = ["amdgcnspirv"],
        rule = hip_code_objects,
    )

    # Portable code.
    hip_code_objects(
        name = "hip_portable",
        srcs = ["a.hip", "sub/a.hip"],
        offload_archs = ["amdgcnspirv", "gfx942"],
        tags = ["manual"],
    )
    actions_test(
        name = "hip_portable_compile_test",
        argv = ["--offload-arch=amdgcnspirv -emit-llvm -c"],
        count = 2,
        mnemonic = "OffloadHipPortableCompile",
        not_in_argv = ["-S", "-emit-obj", "-fgpu-rdc"],
        output = "hip_portable/amdgcnspirv/a.bc",
        target = "hip_portable",
    )
    actions_test(
        name = "hip_portable_link_test",
        argv = [
            "--target=spirv64-amd-amdhsa -nogpulib",
            "-o BIN/tests/analysis/hip_portable/amdgcnspirv.spv BIN/tests/analysis/hip_portable/amdgcnspirv/a.bc BIN/tests/analysis/hip_portable/amdgcnspirv/sub/a.bc",
        ],
        count = 2,
        mnemonic = "OffloadDeviceLink",
        not_in_argv = ["-mcpu=amdgcnspirv", "-use-spirv-backend"],
        output = "hip_portable/amdgcnspirv.spv",
        target = "hip_portable",
    )
    provides_test(
        name = "hip_portable_provides_test",
        files = ["hip_portable/amdgcnspirv.spv", "hip_portable/gfx942.co"],
        groups = {"amdgcnspirv": ["hip_portable/amdgcnspirv.spv"], "gfx942": ["hip_portable/gfx942.co"]},
        images = [
            "hipv4-spirv64-amd-amdhsa--amdgcnspirv hip_portable/amdgcnspirv.spv",
            "hipv4-amdgcn-amd-amdhsa--gfx942 hip_portable/gfx942.co",
        ],
        target = "hip_portable",
    )

    hip_code_objects(
        name = "hip_device_deps",
        srcs = ["a.hip"],
        device_deps = [":hip_rdc"],
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    hip_code_objects(
        name = "hip_device_deps_of_deps",
        srcs = ["a.hip"],
        device_deps = [":hip_device_deps"],
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    actions_test(
        name = "hip_device_deps_test",
        argv = [
            "-Xlinker BIN/tests/analysis/hip_device_deps_of_deps/gfx942/a.bc -Wl,--start-lib " +
            "-Xlinker BIN/tests/analysis/hip_rdc/gfx942/a.bc -Xlinker BIN/tests/analysis/hip_device_deps/gfx942/a.bc -Wl,--end-lib",
        ],
        count = 1,
        inputs = ["tests/analysis/hip_rdc/gfx942/a.bc", "tests/analysis/hip_device_deps/gfx942/a.bc"],
        mnemonic = "OffloadDeviceLink",
        output = "hip_device_deps_of_deps/gfx942.co",
        target = "hip_device_deps_of_deps",
    )
    for case, kwargs, message in [
        ("device_deps_archs", {"device_deps": [":hip_rdc"], "offload_archs": ["gfx942", "gfx1100"], "rdc": True}, "device_deps: //tests/analysis:hip_rdc is not compiled for gfx1100, but for gfx942: set the same offload_archs for both"),
        ("device_deps_not_rdc", {"device_deps": [":hip_rdc"], "offload_archs": ["gfx942"]}, "device_deps requires rdc = True for //tests/analysis:hip_rdc: without it, a source can only call device functions"),
        ("device_deps_plain", {"device_deps": [":hip"], "offload_archs": ["gfx942"], "rdc": True}, "device_deps: //tests/analysis:hip has no relocatable device code: expected hip_library, device_bitcode_library, or hip_code_objects with rdc = True"),
    ]:
        failure_test(
            name = "hip_{}_test".format(case),
            srcs = ["a.hip"],
            message = "{}: hip_code_objects: " + message,
            rule = hip_code_objects,
            **kwargs
        )

    failures = {
        "bad_feature": (["gfx90a:xnack"], "{}: hip_code_objects: offload_archs: target ID \"gfx90a:xnack\": \"xnack\" is not a feature followed by + or -, such as xnack+ in gfx90a:xnack+"),
        "bad_kind": (["rocm-amdgcn-amd-amdhsa--gfx942"], "{}: hip_code_objects: offload_archs: target \"rocm-amdgcn-amd-amdhsa--gfx942\": offload kind \"rocm\", expected one of " + ", ".join(target_ids.kinds) + ". Use a target ID like gfx942"),
        "bad_processor": (["gfx90a/gfx942"], "{}: hip_code_objects: offload_archs: target ID \"gfx90a/gfx942\": \"gfx90a/gfx942\" is not the name of a processor"),
        "few_fields": (["hip-amdgcn-amd"], "{}: hip_code_objects: offload_archs: target \"hip-amdgcn-amd\" has 3 fields, expected <kind>-<arch>-<vendor>-<os>-<environment>[-<target ID>]"),
        "no_archs": ([], "{}: hip_code_objects: no architectures: set offload_archs, e.g. [\"gfx90a\", \"gfx942\"], or build with --//rules/settings:offload_archs=gfx90a,gfx942"),
        "no_processor": (["hipv4-amdgcn-amd-amdhsa-"], "{}: hip_code_objects: offload_archs: hipv4-amdgcn-amd-amdhsa-- is not an AMD GPU: HIP code objects are for target IDs like gfx942 or gfx90a:xnack+"),
        "nvidia": (["sm_70"], "{}: hip_code_objects: offload_archs: sm_70 is not an AMD GPU, which kind hipv4 is for: name a target ID such as gfx942"),
        "spirv": (["hipv4-spirv64-unknown-unknown-"], "{}: hip_code_objects: offload_archs: hipv4-spirv64-unknown-unknown-unknown- is not an AMD GPU"),
        "twice": (["gfx942", "gfx942"], "{}: hip_code_objects: offload_archs names gfx942 twice"),
        "twice_otherwise": (["gfx90a:xnack+:sramecc-", "gfx90a:sramecc-:xnack+"], "{}: hip_code_objects: offload_archs names gfx90a:sramecc-:xnack+ twice: also as gfx90a:xnack+:sramecc-"),
        "twice_feature": (["gfx90a:xnack+:xnack-"], "{}: hip_code_objects: offload_archs: target ID \"gfx90a:xnack+:xnack-\": feature \"xnack\" is given twice"),
        "bad_triple": (["hip-amdgcn-a md-amdhsa--gfx90a"], "{}: hip_code_objects: offload_archs: target \"hip-amdgcn-a md-amdhsa--gfx90a\": \"a md\" is not part of a triple"),
    }
    for case, (archs, message) in failures.items():
        failure_test(
            name = "hip_{}_test".format(case),
            srcs = ["a.hip"],
            message = message,
            offload_archs = archs,
            rule = hip_code_objects,
        )
    failure_test(
        name = "hip_only_headers_test",
        srcs = ["a.h"],
        message = "{}: hip_code_objects: srcs has only headers: add HIP sources",
        offload_archs = ["gfx942"],
        rule = hip_code_objects,
    )
    failure_test(
        name = "hip_no_srcs_test",
        srcs = [],
        message = "{}: hip_code_objects: srcs is empty: add HIP sources",
        offload_archs = ["gfx942"],
        rule = hip_code_objects,
    )
    directory(
        name = "directory",
        tags = ["manual"],
    )
    for kind, rule in [
        ("bitcode", device_bitcode_library),
        ("code_objects", hip_code_objects),
        ("hip", hip_library),
        ("openmp", openmp_library),
    ]:
        failure_test(
            name = "directory_{}_test".format(kind),
            srcs = [":directory"],
            message = "{}: srcs: tests/analysis/directory is a directory, whose files are known too late for an action each: expected files; name the outputs of the rule that makes it, or add it to hdrs if it has headers",
            offload_archs = ["gfx942"],
            rule = rule,
        )
    failure_test(
        name = "hip_fgpu_rdc_test",
        srcs = ["a.hip"],
        copts = ["-O2 -fgpu-rdc"],
        message = "{}: copts: -fgpu-rdc: set rdc = True instead",
        offload_archs = ["gfx942"],
        rule = hip_code_objects,
    )
    failure_test(
        name = "hip_fgpu_rdc_library_test",
        srcs = ["a.hip"],
        device_copts = ["-fgpu-rdc"],
        message = "{}: device_copts: -fgpu-rdc: set rdc = True instead",
        offload_archs = ["gfx942"],
        rule = hip_library,
    )
    hip_code_objects(
        name = "hip_fgpu_rdc",
        srcs = ["a.hip"],
        copts = ["-fgpu-rdc"],
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    actions_test(
        name = "hip_fgpu_rdc_twice_test",
        argv = ["-fgpu-rdc"],
        mnemonic = "OffloadHipCompile",
        output = "hip_fgpu_rdc/gfx942/a.bc",
        target = "hip_fgpu_rdc",
    )
    failure_test(
        name = "hip_includes_test",
        srcs = ["a.hip"],
        includes = ["../../../other"],
        message = "{}: includes: \"../../../other\" is outside of the workspace: name a directory in it, relative to the package",
        offload_archs = ["gfx942"],
        rule = hip_code_objects,
    )
