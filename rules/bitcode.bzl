"""Device libraries.

`device_bitcode_library` builds device functions as LLVM bitcode, which compilations of other targets link.
"""

load("//rules/private:device_bitcode.bzl", _device_bitcode_library = "device_bitcode_library")

device_bitcode_library = _device_bitcode_library
