"""Built files.

These rules change the device code in built files, so that it is for some GPUs only, or in files of its own, and test packages of
built files.
"""

load("//rules/private:offload_kpack.bzl", _offload_kpack = "offload_kpack")
load("//rules/private:offload_package_test.bzl", _offload_package_test = "offload_package_test")
load("//rules/private:offload_prune.bzl", _offload_prune = "offload_prune")
load("//rules/private:offload_wheel.bzl", _offload_wheel = "offload_wheel")

offload_kpack = _offload_kpack
offload_package_test = _offload_package_test
offload_prune = _offload_prune
offload_wheel = _offload_wheel
