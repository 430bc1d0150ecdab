"""Named groups of architectures."""

load(":processors.bzl", _ARCH_GROUPS = "ARCH_GROUPS")

# AMD's GPU generations, by names of products and of instruction sets.
ARCH_GROUPS = _ARCH_GROUPS

# The name for the GPUs of this machine.
NATIVE = "native"

def expand_archs(names, native = None):
    """Expands the names of groups in a list of architectures.

    Args:
      names: list of strings: targets, names of groups, and `native`.
      native: list of the GPUs of this machine; None to keep `native` unchanged.

    Returns:
      list of strings, without duplicates.
    """
    if not any([name == NATIVE or name in ARCH_GROUPS for name in names]):
        return names
    members = {}
    for name in names:
        for arch in _members(name, native):
            members[arch] = None
    result = []
    for name in names:
        if _members(name, native):
            result.extend([arch for arch in _members(name, native) if arch not in result])
        elif name not in members:
            result.append(name)
    return result

def _members(name, native):
    return native or [] if name == NATIVE else ARCH_GROUPS.get(name, [])
