"""HIP.

`hip_library` compiles kernels and the host code that launches them, `hip_binary` and `hip_test` build programs from such
sources, and `hip_code_objects` compiles kernels for `offload_bundle` and `hipModuleLoad`.
"""

load("//rules/private:choices.bzl", _if_hip = "if_hip", _requires_hip = "requires_hip")
load("//rules/private:hip_code_objects.bzl", _hip_code_objects = "hip_code_objects")
load("//rules/private:hip_device_link.bzl", _hip_device_link = "hip_device_link")
load("//rules/private:hip_library.bzl", _hip_library = "hip_library")
load("//rules/private:hip_programs.bzl", _hip_binary = "hip_binary", _hip_test = "hip_test")

hip_binary = _hip_binary
hip_code_objects = _hip_code_objects
hip_device_link = _hip_device_link
hip_library = _hip_library
hip_test = _hip_test
if_hip = _if_hip
requires_hip = _requires_hip
