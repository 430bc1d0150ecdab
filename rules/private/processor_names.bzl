"""Checks of processor names against those that LLVM knows."""

load(":arch_groups.bzl", "ARCH_GROUPS", "NATIVE")
load(":processors.bzl", "FEATURES", "PROCESSORS")

_KNOWN = {name: None for name in PROCESSORS}
_CPUS = ["aarch64", "arm64", "amd64", "cpu", "host", "x86_64", "x86-64"]

def _distance(a, b):
    """Returns the number of insertions, deletions and replacements of characters that turn one text into another."""
    row = range(len(b) + 1)
    for i in range(len(a)):
        next = [i + 1]
        for j in range(len(b)):
            if a[i] == b[j]:
                next.append(row[j])
            else:
                next.append(1 + min(row[j], row[j + 1], next[j]))
        row = next
    return row[len(b)]

def _nearest(name):
    """Returns the known name that is most similar to a name; empty if none is similar."""
    best, least = "", 3
    for known in PROCESSORS + ARCH_GROUPS.keys() + [NATIVE]:
        # Of gfx908 and gfx90a, gfx90b is more similar to the one that also ends with a letter.
        distance = _distance(name.lower(), known) + (0 if known[-1].isdigit() == name[-1].isdigit() else 0.5)
        if distance < least and distance < len(known) - 1:
            best, least = known, distance
    return best

def check_processor(target_id, where, kind = "hipv4"):
    """Fails if a short target ID has a processor that LLVM does not know, or a feature that the processor does not have.

    Args:
      target_id: such as `gfx90a:xnack+` or `sm_90`.
      where: prefix of error messages.
      kind: the offload kind of the target; empty if it cannot be an entry ID.
    """
    for separator in [",", ";", " "]:
        if separator in target_id.strip():
            fail("{}: {} is a list in one string, expected [{}]".format(
                where,
                repr(target_id),
                ", ".join([repr(part.strip()) for part in target_id.split(separator) if part.strip()]),
            ))
    processor = target_id.split(":")[0]
    if processor not in _KNOWN:
        if processor in _CPUS:
            fail("{}: {} is not a GPU: name a GPU, such as gfx942, or for OpenMP on the CPU, its triple, such as x86_64-unknown-linux-gnu".format(where, repr(target_id)))
        if processor in ARCH_GROUPS:
            fail("{}: {} is a group of architectures, but {} cannot be a group: name its members, {}".format(where, repr(processor), "a target" if processor == target_id else "something with features", ", ".join(ARCH_GROUPS[processor])))
        near = _nearest(processor)
        advice = ". If your compiler supports it, write a full entry ID, such as {}-{}--{}".format(
            kind,
            "nvptx64-nvidia-cuda" if kind == "cuda" else "amdgcn-amd-amdhsa",
            processor,
        )
        fail("{}: {} is not a processor of LLVM{}{}".format(
            where,
            repr(processor),
            ": did you mean {}?".format(near) if near else ", such as gfx90a, gfx942 or sm_90",
            advice if kind else "",
        ).replace("?.", "?"))
    known = FEATURES.get(processor, [])
    for part in target_id.split(":")[1:]:
        if part[-1:] in ("+", "-") and part[:-1] not in known:
            fail("{}: {}: {} does not have the feature {}: {}".format(
                where,
                repr(target_id),
                processor,
                part[:-1],
                "it has " + " and ".join(known) if known else "target IDs of it have no features",
            ))
