// HIP compilations include this header instead of HIP's own if the device toolchain has no ROCm.
#error "the device toolchain has no ROCm: use offload.archive_rocm, or set the ROCm of this machine with --repo_env=ROCM_PATH=/path/to/rocm or offload.system_clang(rocm_path = ...); see docs/toolchains.md of rules_offload"
