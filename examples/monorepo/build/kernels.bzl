"""How this company builds device code: one place for architectures and size budgets."""

load("@rules_offload//rules:defs.bzl", "hip_code_objects", "offload_archive", "offload_bundle")

_DATACENTER = ["gfx90a", "gfx942"]
_DESKTOP = ["gfx1100", "gfx1201"]

# Each team has a directory.
_TEAMS = {
    "imaging": struct(archs = _DESKTOP, max_size = "64KiB"),
    "linalg": struct(archs = _DATACENTER, max_size = "128KiB"),
    "random": struct(archs = _DATACENTER + _DESKTOP, max_size = "128KiB"),
    # Tuned by hand for memory that retries page faults, and for memory that does not.
    "signal": struct(archs = ["gfx90a:xnack+", "gfx90a:xnack-", "gfx1100"], max_size = "128KiB"),
}

def kernel_library(name, **kwargs):
    """Kernels as a bundle for the GPUs of the team, within its size budget.

    Args:
      name: name of the bundle.
      **kwargs: attributes of `hip_code_objects`.
    """
    team = _TEAMS[native.package_name()]
    hip_code_objects(
        name = name + "_code",
        offload_archs = team.archs,
        deps = ["//device"],
        **kwargs
    )
    offload_bundle(
        name = name,
        images = [name + "_code"],
        max_size = team.max_size,
        visibility = ["//visibility:public"],
    )

def kernel_archive(name, libraries):
    """All kernels of a team as a device archive.

    Args:
      name: name of the archive.
      libraries: list of `kernel_library` targets.
    """
    offload_archive(
        name = name,
        bundles = libraries,
        visibility = ["//visibility:public"],
    )
