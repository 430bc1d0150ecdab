"""Toolchains: the `offload` program and the device compiler.

The extension in `//rules:extensions.bzl` makes them from what is on the machine or on the net; these rules are for
toolchains of your own.
"""

load("//rules/private:device_toolchain.bzl", _device_toolchain = "device_toolchain")
load("//rules/private:toolchains.bzl", _offload_device_toolchain = "offload_device_toolchain", _offload_program_toolchain = "offload_program_toolchain")

device_toolchain = _device_toolchain
offload_device_toolchain = _offload_device_toolchain
offload_program_toolchain = _offload_program_toolchain
