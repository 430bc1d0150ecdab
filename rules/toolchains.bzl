"""Toolchains: the `offload` program and the device compiler.

The extension in `//rules:extensions.bzl` declares these toolchains for installed or downloaded software. Use the rules
in this file to declare your own toolchains.
"""

load("//rules/private:device_toolchain.bzl", _device_toolchain = "device_toolchain")
load(
    "//rules/private:toolchains.bzl",
    _offload_device_toolchain = "offload_device_toolchain",
    _offload_program_toolchain = "offload_program_toolchain",
    _offload_target_program_toolchain = "offload_target_program_toolchain",
)

device_toolchain = _device_toolchain
offload_device_toolchain = _offload_device_toolchain
offload_program_toolchain = _offload_program_toolchain
offload_target_program_toolchain = _offload_target_program_toolchain
