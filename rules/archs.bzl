"""Architectures.

`archs` has a field for each named group of architectures:

```starlark
hip_library(
    name = "solver",
    srcs = ["solver.hip"],
    offload_archs = archs.mi300 + archs.rdna3,
)
```

The attribute `offload_archs` and the setting also accept the names of groups: `offload_archs = ["mi300", "rdna3"]`.
"""

load("//rules/private:arch_groups.bzl", "ARCH_GROUPS")
load("//rules/private:choices.bzl", _if_arch = "if_arch", _requires_arch = "requires_arch")
load("//rules/private:offload_per_arch.bzl", _offload_per_arch = "offload_per_arch")

# The struct has a field for each group, which is a list of target IDs. docs/settings.md lists the groups.
archs = struct(**ARCH_GROUPS)

if_arch = _if_arch
offload_per_arch = _offload_per_arch
requires_arch = _requires_arch
