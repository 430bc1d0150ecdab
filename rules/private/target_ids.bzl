"""Entry IDs and target IDs at analysis time.

The program knows the whole grammar; the rules only complete short forms, write
the standard form of what they complete, and refuse sets of targets that cannot
live in one bundle.
"""

_KINDS = ["host", "openmp", "hip", "hipv4"]

# What a short form such as `gfx942` or `sm_90` stands for.
_AMDGPU_TRIPLE = "amdgcn-amd-amdhsa-"
_NVPTX_TRIPLE = "nvptx64-nvidia-cuda-unknown"

def _parse_target_id(target_id, where):
    """Splits `gfx90a:sramecc+:xnack-` into its processor and a dict feature -> sign."""
    parts = target_id.split(":")
    features = {}
    for part in parts[1:]:
        name, sign = part[:-1], part[-1:]
        if not name or sign not in ("+", "-"):
            fail("{}: target ID {}: {} is not a feature followed by + or -, as in gfx90a:xnack+".format(
                where,
                repr(target_id),
                repr(part),
            ))
        if name in features:
            fail("{}: target ID {}: feature {} is given twice".format(where, repr(target_id), repr(name)))
        features[name] = sign
    if not parts[0] or parts[0].strip() != parts[0] or "," in parts[0] or "=" in parts[0]:
        fail("{}: target ID {}: {} is not a processor name".format(where, repr(target_id), repr(parts[0])))
    return parts[0], features

def _canonical(target_id, where):
    """The target ID with its features in alphabetical order, as LLVM writes it."""
    processor, features = _parse_target_id(target_id, where)
    return ":".join([processor] + [name + features[name] for name in sorted(features)])

def _entry_id(kind, triple, target_id):
    return "{}-{}-{}".format(kind, triple, target_id)

def _complete(kind, text, where):
    """A struct(kind, triple, target_id) for a short form or a full entry ID.

    Args:
      kind: the offload kind that a short form gets.
      text: `gfx90a:xnack+`, `sm_90`, or an entry ID such as
        `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+`.
      where: what to blame in a message.
    """
    head = text.split(":")[0]
    if "-" not in head or head.startswith("gfx"):
        target_id = _canonical(text, where)
        triple = _NVPTX_TRIPLE if text.startswith("sm_") else _AMDGPU_TRIPLE
        return struct(kind = kind, triple = triple, target_id = target_id)
    fields = text.split("-", 5)
    if fields[0] not in _KINDS:
        fail("{}: target {}: offload kind {} is none of {}. Give a target ID like gfx942, or a whole entry ID like hipv4-amdgcn-amd-amdhsa--gfx942".format(
            where,
            repr(text),
            repr(fields[0]),
            ", ".join(_KINDS),
        ))
    if len(fields) < 5:
        fail("{}: target {} has {} fields; an entry ID is <kind>-<arch>-<vendor>-<os>-<environment>[-<target ID>]".format(
            where,
            repr(text),
            len(fields),
        ))
    target_id = fields[5] if len(fields) == 6 else ""
    triple = fields[1:5]
    if not target_id and fields[4].startswith("gfx"):
        # The three-field triple of older releases.
        target_id, triple[3] = fields[4], ""
    if triple[2].startswith("amdhsa"):
        triple[3] = ""
    return struct(
        kind = fields[0],
        triple = "-".join([part or "unknown" for part in triple[:3]] + [triple[3]]),
        target_id = _canonical(target_id, where) if target_id else "",
    )

def _check(images, where):
    """Fails when two images cannot be in one bundle.

    Target ID rule: for one kind, triple and processor, a feature that one entry
    names must be named by all of them.

    Args:
      images: list of `offload_image()` structs.
      where: `label: rule` to begin a message with.
    """
    by_id = {}
    by_processor = {}
    for image in images:
        if image.id in by_id:
            fail("{}: two images for {}: from {} and from {}. A bundle has one entry for each target; drop one, or put them in two bundles.".format(
                where,
                image.target_id or image.id,
                by_id[image.id].label,
                image.label,
            ))
        by_id[image.id] = image
        if not image.target_id:
            continue
        processor, features = _parse_target_id(image.target_id, where)
        key = (image.kind, image.triple, processor)
        if key not in by_processor:
            by_processor[key] = (image, features)
            continue
        first, first_features = by_processor[key]
        for feature in sorted(features) + sorted(first_features):
            if feature in features and feature in first_features:
                continue
            fail(("{}: images of {} and {} cannot be in one bundle: when one names {}, all entries of the processor must (target ID rules).\n" +
                  "From {} ({}) and {} ({}). Give both a setting, or put them in two bundles.").format(
                where,
                first.target_id,
                image.target_id,
                feature,
                first.label,
                first.target_id,
                image.label,
                image.target_id,
            ))

target_ids = struct(
    canonical = _canonical,
    check = _check,
    complete = _complete,
    entry_id = _entry_id,
    kinds = _KINDS,
)
