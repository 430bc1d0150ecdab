"""Toolchains: the `offload` program and the device compiler."""

load("//rules/private:toolchains.bzl", _offload_device_toolchain = "offload_device_toolchain", _offload_program_toolchain = "offload_program_toolchain")

offload_program_toolchain = _offload_program_toolchain
offload_device_toolchain = _offload_device_toolchain
