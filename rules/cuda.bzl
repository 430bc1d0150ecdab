"""CUDA.

`cuda_ptx` compiles kernels to PTX for `cuModuleLoadData`.
"""

load("//rules/private:choices.bzl", _if_cuda = "if_cuda", _requires_cuda = "requires_cuda")
load("//rules/private:cuda_ptx.bzl", _cuda_ptx = "cuda_ptx")

cuda_ptx = _cuda_ptx
if_cuda = _if_cuda
requires_cuda = _requires_cuda
