"""All rules: `load("@rules_offload//rules:defs.bzl", "offload_bundle")`.

Each family of rules also has a file of its own, such as `//rules:hip.bzl`, which loads less.
"""

load(":archs.bzl", _if_arch = "if_arch", _offload_per_arch = "offload_per_arch", _requires_arch = "requires_arch")
load(":bitcode.bzl", _device_bitcode_library = "device_bitcode_library")
load(":bundle.bzl", _offload_archive = "offload_archive", _offload_binary = "offload_binary", _offload_bundle = "offload_bundle", _offload_extract = "offload_extract", _offload_images = "offload_images", _offload_unbundle = "offload_unbundle")
load(":cuda.bzl", _cuda_ptx = "cuda_ptx", _if_cuda = "if_cuda", _requires_cuda = "requires_cuda")
load(":hip.bzl", _hip_binary = "hip_binary", _hip_code_objects = "hip_code_objects", _hip_device_link = "hip_device_link", _hip_library = "hip_library", _hip_test = "hip_test", _if_hip = "if_hip", _requires_hip = "requires_hip")
load(":link.bzl", _offload_cc_data = "offload_cc_data", _offload_embed = "offload_embed", _offload_link = "offload_link", _offload_register = "offload_register")
load(":openmp.bzl", _if_openmp_offload = "if_openmp_offload", _openmp_library = "openmp_library", _requires_openmp_offload = "requires_openmp_offload")
load(":prune.bzl", _offload_kpack = "offload_kpack", _offload_package_test = "offload_package_test", _offload_prune = "offload_prune", _offload_wheel = "offload_wheel")
load(":report.bzl", _offload_compiler_diff = "offload_compiler_diff", _offload_device_code_aspect = "offload_device_code_aspect", _offload_report = "offload_report")

cuda_ptx = _cuda_ptx
device_bitcode_library = _device_bitcode_library
hip_binary = _hip_binary
hip_code_objects = _hip_code_objects
hip_device_link = _hip_device_link
hip_library = _hip_library
hip_test = _hip_test
if_arch = _if_arch
if_cuda = _if_cuda
if_hip = _if_hip
if_openmp_offload = _if_openmp_offload
offload_archive = _offload_archive
offload_binary = _offload_binary
offload_bundle = _offload_bundle
offload_cc_data = _offload_cc_data
offload_compiler_diff = _offload_compiler_diff
offload_device_code_aspect = _offload_device_code_aspect
offload_embed = _offload_embed
offload_extract = _offload_extract
offload_images = _offload_images
offload_kpack = _offload_kpack
offload_link = _offload_link
offload_package_test = _offload_package_test
offload_per_arch = _offload_per_arch
offload_prune = _offload_prune
offload_register = _offload_register
offload_report = _offload_report
offload_unbundle = _offload_unbundle
offload_wheel = _offload_wheel
openmp_library = _openmp_library
requires_arch = _requires_arch
requires_cuda = _requires_cuda
requires_hip = _requires_hip
requires_openmp_offload = _requires_openmp_offload
