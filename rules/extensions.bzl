"""Module extension: a device compiler from the system.

```starlark
offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
use_repo(offload, "offload_system_clang")
register_toolchains("@offload_system_clang//:all")
```
"""

load("//rules/private:system_clang.bzl", "system_clang")

_system_clang = tag_class(
    doc = "Where to look for clang. Only the root module's tag counts.",
    attrs = {
        "path": attr.string(
            doc = "The folder that holds `bin/clang`, e.g. `/opt/rocm/llvm`. If empty, the variable OFFLOAD_LLVM, then the usual places, newest release first.",
        ),
    },
)

def _offload_impl(module_ctx):
    path = ""
    for module in module_ctx.modules:
        for tag in module.tags.system_clang:
            if module.is_root:
                path = tag.path
    system_clang(name = "offload_system_clang", path = path)

offload = module_extension(
    implementation = _offload_impl,
    doc = "Makes the repository `offload_system_clang` with a toolchain for the clang and lld found on this machine.",
    tag_classes = {"system_clang": _system_clang},
)
