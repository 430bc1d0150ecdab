"""Named groups of architectures: `load("@rules_offload//rules:archs.bzl", "archs")`.

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

# The struct has a field for each group, which is a list of target IDs. docs/settings.md lists the groups.
archs = struct(**ARCH_GROUPS)
