"""Named groups of architectures: `load("@rules_offload//rules:archs.bzl", "archs")`.

```starlark
hip_library(
    name = "solver",
    srcs = ["solver.hip"],
    offload_archs = archs.mi300 + archs.rdna3,
)
```

The attribute `offload_archs` and the setting take the names of groups, too: `offload_archs = ["mi300", "rdna3"]`.
"""

load("//rules/private:arch_groups.bzl", "ARCH_GROUPS")

# A field for each group: a list of target IDs. docs/settings.md has the list.
archs = struct(**ARCH_GROUPS)
