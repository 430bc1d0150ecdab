"""The GPUs of this machine.

`NATIVE_ARCHS` is a list of target IDs, empty if Bazel detects no GPU. To load this file detects them. Targets need no list:
`native` in `offload_archs` stands for the same GPUs. See [Settings](../settings.md#the-gpus-of-this-machine).

```starlark
load("@rules_offload//rules:native.bzl", "NATIVE_ARCHS")
```
"""

load("@offload_native//:archs.bzl", _NATIVE_ARCHS = "NATIVE_ARCHS")

NATIVE_ARCHS = _NATIVE_ARCHS
