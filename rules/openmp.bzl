"""OpenMP.

`openmp_library` compiles C and C++ sources with target regions for programs.
"""

load("//rules/private:choices.bzl", _if_openmp_offload = "if_openmp_offload", _requires_openmp_offload = "requires_openmp_offload")
load("//rules/private:openmp_library.bzl", _openmp_library = "openmp_library")

if_openmp_offload = _if_openmp_offload
openmp_library = _openmp_library
requires_openmp_offload = _requires_openmp_offload
