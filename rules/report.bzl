"""Reports.

`offload_report` lists the device code in programs, and checks it. `offload_compiler_diff` compares the code of two compilers.
"""

load("//rules/private:compiler_diff.bzl", _offload_compiler_diff = "offload_compiler_diff")
load("//rules/private:report.bzl", _offload_device_code_aspect = "offload_device_code_aspect", _offload_report = "offload_report")

offload_compiler_diff = _offload_compiler_diff
offload_device_code_aspect = _offload_device_code_aspect
offload_report = _offload_report
