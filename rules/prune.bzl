"""Built files.

These rules change the device code in built files, so that it is for some GPUs only, or in files of its own.
"""

load("//rules/private:offload_kpack.bzl", _offload_kpack = "offload_kpack")
load("//rules/private:offload_prune.bzl", _offload_prune = "offload_prune")
load("//rules/private:offload_wheel.bzl", _offload_wheel = "offload_wheel")

offload_kpack = _offload_kpack
offload_prune = _offload_prune
offload_wheel = _offload_wheel
