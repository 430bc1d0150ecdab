"""The rules: `load("@rules_offload//rules:defs.bzl", "offload_bundle")`.

The following applies to all rules:

- **Images** are files that contain code for one target each. Rules that produce or contain images provide
  `OffloadImagesInfo`. Any attribute `images` accepts their targets: code objects in an offload binary, a `hip_library` in
  a bundle, or a bundle in another bundle.
- **Targets** are target IDs such as `gfx90a:xnack+`, triples such as `x86_64-pc-linux-gnu`, or full entry IDs such as
  `openmp-amdgcn-amd-amdhsa--gfx90a`. For target IDs and triples, the attribute `kind` or the rule sets the offload kind.
  Lookups treat `hip` and `hipv4` as the same kind.
- **Output groups** are named after targets: `--output_groups=gfx942` builds only the images for gfx942.
- **Messages** begin with the label of the target and the name of the rule.
"""

load("//rules/private:choices.bzl", _if_arch = "if_arch", _if_cuda = "if_cuda", _if_hip = "if_hip", _if_openmp_offload = "if_openmp_offload", _requires_arch = "requires_arch", _requires_cuda = "requires_cuda", _requires_hip = "requires_hip", _requires_openmp_offload = "requires_openmp_offload")
load("//rules/private:cuda_ptx.bzl", _cuda_ptx = "cuda_ptx")
load("//rules/private:device_bitcode.bzl", _device_bitcode_library = "device_bitcode_library")
load("//rules/private:hip_code_objects.bzl", _hip_code_objects = "hip_code_objects")
load("//rules/private:hip_device_link.bzl", _hip_device_link = "hip_device_link")
load("//rules/private:hip_library.bzl", _hip_library = "hip_library")
load("//rules/private:hip_programs.bzl", _hip_binary = "hip_binary", _hip_test = "hip_test")
load("//rules/private:offload_archive.bzl", _offload_archive = "offload_archive")
load("//rules/private:offload_binary.bzl", _offload_binary = "offload_binary")
load("//rules/private:offload_bundle.bzl", _offload_bundle = "offload_bundle")
load("//rules/private:offload_cc_data.bzl", _offload_cc_data = "offload_cc_data")
load("//rules/private:offload_embed.bzl", _offload_embed = "offload_embed")
load("//rules/private:offload_extract.bzl", _offload_extract = "offload_extract")
load("//rules/private:offload_images.bzl", _offload_images = "offload_images")
load("//rules/private:offload_kpack.bzl", _offload_kpack = "offload_kpack")
load("//rules/private:offload_link.bzl", _offload_link = "offload_link")
load("//rules/private:offload_per_arch.bzl", _offload_per_arch = "offload_per_arch")
load("//rules/private:offload_prune.bzl", _offload_prune = "offload_prune")
load("//rules/private:offload_register.bzl", _offload_register = "offload_register")
load("//rules/private:offload_unbundle.bzl", _offload_unbundle = "offload_unbundle")
load("//rules/private:openmp_library.bzl", _openmp_library = "openmp_library")
load("//rules/private:report.bzl", _offload_device_code_aspect = "offload_device_code_aspect", _offload_report = "offload_report")

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
offload_device_code_aspect = _offload_device_code_aspect
offload_embed = _offload_embed
offload_extract = _offload_extract
offload_images = _offload_images
offload_kpack = _offload_kpack
offload_link = _offload_link
offload_per_arch = _offload_per_arch
offload_prune = _offload_prune
offload_register = _offload_register
offload_report = _offload_report
offload_unbundle = _offload_unbundle
openmp_library = _openmp_library
requires_arch = _requires_arch
requires_cuda = _requires_cuda
requires_hip = _requires_hip
requires_openmp_offload = _requires_openmp_offload
