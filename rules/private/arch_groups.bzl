"""Named groups of architectures."""

# AMD's GPU generations, by names of products and of instruction sets. Names are identifiers because //rules:archs.bzl
# uses them as fields.
ARCH_GROUPS = {
    "cdna1": ["gfx908"],
    "cdna2": ["gfx90a"],
    "cdna3": ["gfx942"],
    "cdna4": ["gfx950"],
    "mi100": ["gfx908"],
    "mi200": ["gfx90a"],
    "mi300": ["gfx942"],
    "mi350": ["gfx950"],
    "rdna1": ["gfx1010", "gfx1011", "gfx1012", "gfx1013"],
    "rdna2": ["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"],
    "rdna3": ["gfx1100", "gfx1101", "gfx1102", "gfx1103"],
    "rdna3_5": ["gfx1150", "gfx1151", "gfx1152", "gfx1153"],
    "rdna4": ["gfx1200", "gfx1201"],
}

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
