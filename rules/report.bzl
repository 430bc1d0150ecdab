"""Reports.

`offload_report` lists the device code in programs, and checks it.
"""

load("//rules/private:report.bzl", _offload_device_code_aspect = "offload_device_code_aspect", _offload_report = "offload_report")

offload_device_code_aspect = _offload_device_code_aspect
offload_report = _offload_report
