"""Analysis tests of offload_images, offload_binary, offload_extract and offload_per_arch."""

load("//rules:defs.bzl", "hip_code_objects", "offload_binary", "offload_bundle", "offload_extract", "offload_images", "offload_per_arch")
load(":fixtures.bzl", "images")
load(":testing.bzl", "actions_test", "failure_test", "provides_test")

def images_tests(name):
    """Actions, providers and failures of the rules for images.

    Args:
      name: name of the test suite.
    """
    offload_images(
        name = "prebuilt",
        srcs = {
            "a.h": "gfx942",
            "a.hip": "openmp-x86_64-pc-linux-gnu",
        },
        tags = ["manual"],
    )
    provides_test(
        name = "prebuilt_provides_test",
        files = ["a.h", "a.hip"],
        groups = {"gfx942": ["a.h"], "openmp-x86_64-pc-linux-gnu-": ["a.hip"]},
        images = ["hipv4-amdgcn-amd-amdhsa--gfx942 a.h", "openmp-x86_64-pc-linux-gnu- a.hip"],
        target = "prebuilt",
    )
    native.filegroup(
        name = "two_files",
        srcs = ["a.h", "a.hip"],
    )
    failure_test(
        name = "prebuilt_two_files_test",
        srcs = {":two_files": "gfx942"},
        message = "{}: offload_images: srcs: //tests/analysis:two_files gives 2 files; an image is one file",
        rule = offload_images,
    )
    failure_test(
        name = "prebuilt_empty_test",
        srcs = {},
        message = "{}: offload_images: srcs is empty: give it files and their targets, e.g. {\"kernels.gfx942.co\": \"gfx942\"}",
        rule = offload_images,
    )
    failure_test(
        name = "prebuilt_twice_test",
        srcs = {
            "a.h": "gfx942",
            "a.hip": "gfx942",
        },
        message = "{}: offload_images: srcs names gfx942 twice",
        rule = offload_images,
    )

    images(
        name = "images_openmp",
        kind = "openmp",
        tags = ["manual"],
        targets = ["gfx90a", "sm_70", "openmp-x86_64-pc-linux-gnu"],
    )
    images(
        name = "images_host",
        tags = ["manual"],
        targets = ["host-x86_64-unknown-linux-gnu-"],
    )
    images(
        name = "images_cuda",
        kind = "cuda",
        tags = ["manual"],
        targets = ["sm_70"],
    )
    offload_binary(
        name = "binary",
        images = [":prebuilt", ":images_openmp"],
        tags = ["manual"],
    )
    actions_test(
        name = "binary_action_test",
        argv = [
            "pack --format-version=1 --output=BIN/tests/analysis/binary.ofb " +
            "--image=file=tests/analysis/a.h,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=hip " +
            "--image=file=tests/analysis/a.hip,triple=x86_64-pc-linux-gnu,arch=,kind=openmp " +
            "--image=file=BIN/tests/analysis/images_openmp/0,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=openmp " +
            "--image=file=BIN/tests/analysis/images_openmp/1,triple=nvptx64-nvidia-cuda,arch=sm_70,kind=openmp",
        ],
        count = 1,
        inputs = ["tests/analysis/a.h", "tests/analysis/images_openmp/2"],
        mnemonic = "OffloadPack",
        output = "binary.ofb",
        target = "binary",
    )
    failure_test(
        name = "binary_version_test",
        format_version = 3,
        images = [":prebuilt"],
        message = "{}: offload_binary: format_version is 3: it is 1, which every LLVM since 15 reads, or 2, for LLVM 23 and later",
        rule = offload_binary,
    )
    failure_test(
        name = "binary_host_test",
        images = [":images_host"],
        message = "{}: offload_binary: //tests/analysis:images_host is a host image, which offload binaries do not hold",
        rule = offload_binary,
    )
    failure_test(
        name = "bundle_cuda_test",
        images = [":images_cuda"],
        message = "{}: offload_bundle: images: //tests/analysis:images_cuda gives an image of kind cuda; bundles have host, openmp, hip, hipv4",
        rule = offload_bundle,
    )
    offload_extract(
        name = "extract",
        src = "a.h",
        tags = ["manual"],
        targets = ["gfx90a:xnack+", "openmp-x86_64-pc-linux-gnu"],
    )
    actions_test(
        name = "extract_action_test",
        argv = [
            "extract --image=file=BIN/tests/analysis/extract/gfx90a_xnack+.co,triple=amdgcn-amd-amdhsa,arch=gfx90a:xnack+,kind=hip " +
            "--image=file=BIN/tests/analysis/extract/x86_64-pc-linux-gnu.co,triple=x86_64-pc-linux-gnu,arch=,kind=openmp tests/analysis/a.h",
        ],
        count = 1,
        inputs = ["tests/analysis/a.h"],
        mnemonic = "OffloadExtract",
        output = "extract/gfx90a_xnack+.co",
        outputs = ["extract/gfx90a_xnack+.co", "extract/x86_64-pc-linux-gnu.co"],
        target = "extract",
    )
    failure_test(
        name = "extract_no_targets_test",
        src = "a.h",
        message = "{}: offload_extract: targets is empty: name the targets to take out, e.g. [\"gfx942\"]",
        rule = offload_extract,
        targets = [],
    )

    hip_code_objects(
        name = "hip_any_arch",
        srcs = select({
            "//conditions:default": ["a.hip"],
            "//rules/arch:gfx90a": ["sub/a.hip"],
        }),
        tags = ["manual"],
    )
    offload_per_arch(
        name = "per_arch",
        images = [":hip_any_arch"],
        offload_archs = ["gfx942", "gfx90a:xnack+"],
        tags = ["manual"],
    )
    provides_test(
        name = "per_arch_provides_test",
        images = [
            "hipv4-amdgcn-amd-amdhsa--gfx942 hip_any_arch/gfx942.co",
            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+ hip_any_arch/gfx90a_xnack+.co",
        ],
        target = "per_arch",
    )
    failure_test(
        name = "per_arch_none_test",
        images = [":prebuilt"],
        message = "{}: offload_per_arch: no architectures: set offload_archs",
        offload_archs = [],
        rule = offload_per_arch,
    )
    failure_test(
        name = "per_arch_other_test",
        images = [":prebuilt"],
        message = "{}: offload_per_arch: images: //tests/analysis:prebuilt, built for gfx1100, gives an image for gfx942: leave its own offload_archs empty",
        offload_archs = ["gfx1100"],
        rule = offload_per_arch,
    )

    native.test_suite(
        name = name,
        tests = [
            "prebuilt_provides_test",
            "prebuilt_two_files_test",
            "prebuilt_empty_test",
            "prebuilt_twice_test",
            "binary_action_test",
            "binary_version_test",
            "binary_host_test",
            "bundle_cuda_test",
            "extract_action_test",
            "extract_no_targets_test",
            "per_arch_provides_test",
            "per_arch_none_test",
            "per_arch_other_test",
        ],
    )
