target triple = "amdgcn-amd-amdhsa"

@table = addrspace(1) global i32 0

define amdgpu_kernel void @_Z4gemmPf(ptr addrspace(1) %p) {
  ret void
}

define void @helper() {
  ret void
}

declare amdgpu_kernel void @elsewhere()

define ptx_kernel void @ptx() {
  ret void
}

define internal amdgpu_kernel void @local() {
  ret void
}
