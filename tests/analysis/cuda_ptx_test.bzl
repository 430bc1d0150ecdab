"""Analysis tests of cuda_ptx."""

load("//rules:defs.bzl", "cuda_ptx")
load(":testing.bzl", "actions_test", "failure_test", "provides_test")

def cuda_ptx_tests(name):
    """Actions, providers and failures of cuda_ptx.

    Args:
      name: name of the test suite.
    """
    cuda_ptx(
        name = "ptx",
        srcs = ["a.cu", "sub/a.cc"],
        hdrs = ["a.h"],
        copts = ["-Wall"],
        defines = ["OWN=2"],
        device_linkopts = ["-O3"],
        offload_archs = ["sm_70", "sm_90a", "sm_50"],
        tags = ["manual"],
    )
    cuda_ptx(
        name = "ptx_cuda",
        srcs = ["a.cu"],
        copts = ["--cuda-path=/usr/local/cuda"],
        offload_archs = ["sm_90"],
        tags = ["manual"],
    )
    actions_test(
        name = "ptx_compile_test",
        argv = [
            "-x cuda --target=x86_64-unknown-linux-gnu -toolchain-flag -fastbuild-flag -nocudainc -nocudalib",
            "--cuda-device-only -fgpu-rdc -emit-llvm -c --offload-arch=sm_90a --cuda-feature=+ptx80",
            "-DOWN=2",
            "-Wall -o BIN/tests/analysis/ptx/sm_90a/a.bc tests/analysis/a.cu",
        ],
        count = 6,
        inputs = ["tests/analysis/a.cu", "tests/analysis/a.h"],
        mnemonic = "OffloadCudaCompile",
        output = "ptx/sm_90a/a.bc",
        target = "ptx",
    )
    actions_test(
        name = "ptx_old_compile_test",
        argv = ["--offload-arch=sm_50 -DOWN=2"],
        mnemonic = "OffloadCudaCompile",
        output = "ptx/sm_50/a.bc",
        target = "ptx",
    )
    actions_test(
        name = "ptx_cuda_compile_test",
        argv = ["--cuda-device-only -S --offload-arch=sm_90", "-iquote ."],
        mnemonic = "OffloadCudaCompile",
        not_in_argv = ["-nocudainc", "-nocudalib"],
        output = "ptx_cuda/sm_90.ptx",
        target = "ptx_cuda",
    )
    actions_test(
        name = "ptx_link_test",
        argv = [
            "--target=nvptx64-nvidia-cuda -march=sm_70 --cuda-feature=+ptx60 -flto -Wl,--lto-emit-asm",
            "-Xlinker -plugin-opt=-unroll-max-count=1 -Xlinker -plugin-opt=-unroll-full-max-count=1",
            "-link-flag -O3 -o BIN/tests/analysis/ptx/sm_70.ptx -Xlinker BIN/tests/analysis/ptx/sm_70/a.bc -Xlinker BIN/tests/analysis/ptx/sm_70/sub/a.bc",
        ],
        count = 3,
        mnemonic = "OffloadDeviceLink",
        output = "ptx/sm_70.ptx",
        target = "ptx",
    )
    provides_test(
        name = "ptx_provides_test",
        files = ["ptx/sm_70.ptx", "ptx/sm_90a.ptx", "ptx/sm_50.ptx"],
        groups = {"sm_50": ["ptx/sm_50.ptx"], "sm_70": ["ptx/sm_70.ptx"], "sm_90a": ["ptx/sm_90a.ptx"]},
        images = [
            "cuda-nvptx64-nvidia-cuda-unknown-sm_70 ptx/sm_70.ptx",
            "cuda-nvptx64-nvidia-cuda-unknown-sm_90a ptx/sm_90a.ptx",
            "cuda-nvptx64-nvidia-cuda-unknown-sm_50 ptx/sm_50.ptx",
        ],
        target = "ptx",
    )
    failures = {
        "amd": (["a.cu"], ["gfx942"], "offload_archs: gfx942 is not an NVIDIA GPU, such as sm_70 or sm_90a"),
        "no_archs": (["a.cu"], [], "no architectures: set offload_archs, e.g. [\"sm_80\", \"sm_90\"], or build with --//rules/settings:offload_archs=sm_80,sm_90"),
        "no_processor": (["a.cu"], ["sm90"], "offload_archs: \"sm90\" is not a processor of LLVM: did you mean sm_90? If your compiler supports it, write a full entry ID, such as cuda-nvptx64-nvidia-cuda--sm90"),
        "no_srcs": ([], ["sm_70"], "srcs is empty: add CUDA sources"),
        "openmp": (["a.cu"], ["openmp-nvptx64-nvidia-cuda-unknown-sm_70"], "offload_archs: sm_70 is not an NVIDIA GPU"),
    }
    for case, (srcs, archs, message) in failures.items():
        failure_test(
            name = "ptx_{}_test".format(case),
            srcs = srcs,
            message = "{}: cuda_ptx: " + message,
            offload_archs = archs,
            rule = cuda_ptx,
        )
