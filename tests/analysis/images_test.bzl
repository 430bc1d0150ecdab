"""Analysis tests of offload_images, offload_binary, offload_extract and offload_per_arch."""

load("//rules:defs.bzl", "cuda_ptx", "hip_code_objects", "offload_archive", "offload_binary", "offload_bundle", "offload_extract", "offload_images", "offload_per_arch", "offload_unbundle")
load(":fixtures.bzl", "bad_provider", "images")
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
        groups = {"gfx942": ["a.h"], "x86_64-pc-linux-gnu": ["a.hip"]},
        images = ["hipv4-amdgcn-amd-amdhsa--gfx942 a.h", "openmp-x86_64-pc-linux-gnu- a.hip"],
        target = "prebuilt",
    )
    native.filegroup(
        name = "two_files",
        srcs = ["a.h", "a.hip"],
    )
    offload_bundle(
        name = "bundle_of_bundle",
        images = [":bundle_plain", ":images_xnacks"],
        tags = ["manual"],
    )
    provides_test(
        name = "bundle_of_bundle_test",
        entry_ids = [
            "host-x86_64-unknown-linux-gnu-",
            "hipv4-amdgcn-amd-amdhsa--gfx942",
            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
        ],
        runfiles = ["bundle_of_bundle.hipfb"],
        target = "bundle_of_bundle",
    )
    offload_archive(
        name = "archive_of_library",
        bundles = [":lib", ":bundle"],
        tags = ["manual"],
    )
    actions_test(
        name = "archive_of_library_test",
        argv = ["BIN/tests/analysis/lib.hipfb BIN/tests/analysis/bundle.hipfb"],
        count = 1,
        mnemonic = "OffloadArchive",
        output = "libarchive_of_library.a",
        target = "archive_of_library",
    )
    offload_unbundle(
        name = "unbundle_library",
        bundle = ":lib",
        tags = ["manual"],
        targets = ["gfx942"],
    )
    actions_test(
        name = "unbundle_library_test",
        argv = ["--input=BIN/tests/analysis/lib.hipfb"],
        count = 1,
        mnemonic = "OffloadUnbundle",
        output = "unbundle_library/gfx942.co",
        target = "unbundle_library",
    )
    offload_extract(
        name = "extract_library",
        src = ":lib",
        tags = ["manual"],
        targets = ["gfx942", "openmp-amdgcn-amd-amdhsa--gfx942"],
    )
    provides_test(
        name = "extract_library_test",
        files = ["extract_library/gfx942.co", "extract_library/openmp-amdgcn-amd-amdhsa--gfx942.co"],
        groups = {"gfx942": ["extract_library/gfx942.co", "extract_library/openmp-amdgcn-amd-amdhsa--gfx942.co"]},
        images = [
            "hipv4-amdgcn-amd-amdhsa--gfx942 extract_library/gfx942.co",
            "openmp-amdgcn-amd-amdhsa--gfx942 extract_library/openmp-amdgcn-amd-amdhsa--gfx942.co",
        ],
        runfiles = ["extract_library/gfx942.co", "extract_library/openmp-amdgcn-amd-amdhsa--gfx942.co"],
        target = "extract_library",
    )
    failure_test(
        name = "prebuilt_two_files_test",
        srcs = {":two_files": "gfx942"},
        message = "{}: offload_images: srcs: //tests/analysis:two_files has 2 files, expected one for an image",
        rule = offload_images,
    )
    failure_test(
        name = "prebuilt_empty_test",
        srcs = {},
        message = "{}: offload_images: srcs is empty: add files and their targets, e.g. {\"kernels.gfx942.co\": \"gfx942\"}",
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
        binary_version = 3,
        images = [":prebuilt"],
        message = "{}: offload_binary: binary_version is 3, expected 1, for LLVM 15 and later, or 2, for LLVM 23 and later",
        rule = offload_binary,
    )
    failure_test(
        name = "binary_host_test",
        images = [":images_host"],
        message = "{}: offload_binary: //tests/analysis:images_host is a host image, which an offload binary cannot contain",
        rule = offload_binary,
    )
    failure_test(
        name = "bundle_cuda_test",
        images = [":images_cuda"],
        message = "{}: offload_bundle: images: //tests/analysis:images_cuda has an image of kind cuda, expected one of host, openmp, hip, hipv4",
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
        name = "extract_two_files_test",
        src = ":two_files",
        message = "{}: offload_extract: src: //tests/analysis:two_files has 2 files, expected one; name a file, or a target with one",
        targets = ["gfx942"],
        rule = offload_extract,
    )
    failure_test(
        name = "extract_host_test",
        src = "a.h",
        message = "{}: offload_extract: {} is a host image, which an offload binary cannot contain",
        targets = ["host-x86_64-unknown-linux-gnu"],
        rule = offload_extract,
    )
    failure_test(
        name = "unbundle_two_files_test",
        bundle = ":two_files",
        message = "{}: offload_unbundle: bundle: //tests/analysis:two_files has 2 files, expected one; name a file, or a target with one",
        targets = ["gfx942"],
        rule = offload_unbundle,
    )
    failure_test(
        name = "binary_none_test",
        images = [":images_none"],
        message = "{}: offload_binary: images: no image in //tests/analysis:images_none",
        rule = offload_binary,
    )
    offload_images(
        name = "images_comma",
        srcs = {"sub/a,b.co": "gfx942"},
        tags = ["manual"],
    )
    failure_test(
        name = "binary_comma_test",
        images = [":images_comma"],
        message = "{}: offload_binary: the file tests/analysis/sub/a,b.co of //tests/analysis:images_comma has a comma in its name, which separates the properties of an image",
        rule = offload_binary,
    )
    failure_test(
        name = "extract_no_targets_test",
        src = "a.h",
        message = "{}: offload_extract: no architectures: set targets, e.g. [\"gfx90a\", \"gfx942\"], or build with",
        rule = offload_extract,
    )

    messages = {
        "binary": "OffloadBinaryInfo: tests/analysis/provider_binary_test_target: images must be a depset of offload_image(), found list",
        "bitcode": "OffloadDeviceBitcodeInfo: bitcode must be a depset of offload_bitcode(), found list",
        "bitcode_file": "{}: offload_bitcode: file must be a File, found string",
        "code": "OffloadDeviceCodeInfo: code must be a depset, found list",
        "objects": "OffloadDeviceObjectsInfo: objects must be a depset, found list",
    }
    for case, message in messages.items():
        failure_test(
            name = "provider_{}_test".format(case),
            case = case,
            message = message,
            rule = bad_provider,
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
    cuda_ptx(
        name = "ptx_any_arch",
        srcs = select({
            "//conditions:default": ["a.cu"],
            "//rules/arch:sm_90": ["sub/a.cc"],
        }),
        tags = ["manual"],
    )
    offload_per_arch(
        name = "per_arch_cuda",
        images = [":ptx_any_arch"],
        offload_archs = ["sm_70", "sm_90"],
        tags = ["manual"],
    )
    provides_test(
        name = "per_arch_cuda_provides_test",
        images = [
            "cuda-nvptx64-nvidia-cuda-unknown-sm_70 ptx_any_arch/sm_70.ptx",
            "cuda-nvptx64-nvidia-cuda-unknown-sm_90 ptx_any_arch/sm_90.ptx",
        ],
        target = "per_arch_cuda",
    )
    failure_test(
        name = "per_arch_none_test",
        images = [":prebuilt"],
        message = "{}: offload_per_arch: no architectures: set offload_archs",
        offload_archs = [],
        rule = offload_per_arch,
    )
    failure_test(
        name = "per_arch_no_images_test",
        images = [],
        message = "{}: offload_per_arch: images is empty: add targets with device images, such as hip_code_objects",
        offload_archs = ["gfx1100"],
        rule = offload_per_arch,
    )
    failure_test(
        name = "per_arch_other_test",
        images = [":prebuilt"],
        message = "{}: offload_per_arch: images: //tests/analysis:prebuilt, built for gfx1100, has an image for gfx942: leave its offload_archs empty",
        offload_archs = ["gfx1100"],
        rule = offload_per_arch,
    )
