// What compilations of HIP find instead of HIP's header where the device toolchain has no ROCm.
#error "the device toolchain has no ROCm: use offload.archive_rocm, or name the machine's with --repo_env=ROCM_PATH=/path/to/rocm or offload.system_clang(rocm_path = ...); see docs/toolchains.md of rules_offload"
