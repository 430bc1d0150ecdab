"""Entry IDs and target IDs at analysis time.

The program implements the whole grammar. The rules only complete short forms to
their standard form, check their processors, and reject sets of targets that cannot
be in the same bundle.
"""

load(":messages.bzl", "name_of")
load(":processor_names.bzl", "check_processor")
load(":processors.bzl", "FIXED_FEATURES", "PROCESSORS")
load(":runtimes.bzl", "RUNTIMES")

# Kinds that entries of a bundle can have, and those that only offload binaries can have.
_BUNDLE_KINDS = ["host", "openmp", "hip", "hipv4"]
_KINDS = _BUNDLE_KINDS + [kind for kind in RUNTIMES if kind not in _BUNDLE_KINDS]

# The expansion of a short form such as `gfx942` or `sm_90`.
_AMDGPU_TRIPLE = "amdgcn-amd-amdhsa-"
_NVPTX_TRIPLE = "nvptx64-nvidia-cuda-unknown"
_SPIRV_TRIPLE = "spirv64-amd-amdhsa-"

# AMD's portable code, the only HIP processor that is not a GPU.
_SPIRV_PROCESSOR = "amdgcnspirv"

# The first field of a triple without an offload kind.
_ARCHS = ["aarch64", "amdgcn", "nvptx64", "spirv64", "x86_64"]

# The architecture of AMD GPUs in LLVM 23 and later; the instruction set may follow, as in amdgpu9.0a.
_AMDGPU = "amdgpu"

def _is_arch(name):
    return name in _ARCHS or name.startswith(_AMDGPU)

def _is_amdgpu(triple):
    """Reports whether a triple is for AMD GPUs, in the older spelling (amdgcn) or the newer one (amdgpu9.0a)."""
    arch = triple.split("-")[0]
    return arch == "amdgcn" or arch.startswith(_AMDGPU)

def _runtime_triple(triple):
    """Returns the triple that HIP's runtime looks for in entry IDs, where AMD GPUs are amdgcn."""
    arch, _, rest = triple.partition("-")
    return "amdgcn-" + rest if arch.startswith(_AMDGPU) else triple

def _triples_agree(a, b):
    """Reports whether two triples can be for the same device. Only the program compares instruction sets of AMD GPUs."""
    return a == b or _is_amdgpu(a) and _is_amdgpu(b) and a.partition("-")[2] == b.partition("-")[2]

_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

_KNOWN = {name: None for name in PROCESSORS}

def _is_name(text):
    return text in _KNOWN or (text and not text.strip(_NAME_CHARACTERS))

def _parse_target_id(target_id, where):
    """Splits `gfx90a:sramecc+:xnack-` into its processor and a dict feature -> sign."""
    if _is_name(target_id):
        return target_id, {}
    parts = target_id.split(":")
    if not _is_name(parts[0]):
        fail("{}: target ID {}: {} is not the name of a processor, such as gfx90a in gfx90a:xnack+".format(where, repr(target_id), repr(parts[0])))
    features = {}
    for part in parts[1:]:
        name, sign = part[:-1], part[-1:]
        if not _is_name(name) or sign not in ("+", "-"):
            fail("{}: target ID {}: {} is not a feature followed by + or -, such as xnack+ in gfx90a:xnack+".format(where, repr(target_id), repr(part)))
        if name in features:
            fail("{}: target ID {}: feature {} is given twice".format(where, repr(target_id), repr(name)))
        features[name] = sign
    return parts[0], features

def _canonical(target_id, where):
    """Returns the target ID with its features in alphabetical order, as LLVM prints it."""
    if _is_name(target_id):
        return target_id
    processor, features = _parse_target_id(target_id, where)
    return ":".join([processor] + [name + features[name] for name in sorted(features)])

def _entry_id(kind, triple, target_id):
    return kind + "-" + triple + "-" + target_id

def _target(kind, triple, target_id):
    """Returns a target: a struct with these fields; id, its entry ID; portable, whether it is AMD's portable code, SPIR-V."""
    return struct(
        id = _entry_id(kind, triple, target_id),
        kind = kind,
        portable = triple.startswith("spirv64-"),
        target_id = target_id,
        triple = triple,
    )

# The targets of most attributes. They are the same for all rules.
_HIP_TARGETS = {name: _target("hipv4", _AMDGPU_TRIPLE, name) for name in PROCESSORS if name.startswith("gfx")}

def _image(target, file, label, debug_info = None):
    """Returns an `offload_image()` for a target, which is valid."""
    return struct(
        debug_info = debug_info,
        file = file,
        id = target.id,
        kind = target.kind,
        label = label,
        target_id = target.target_id,
        triple = target.triple,
    )

def _is_short(text):
    head = text.split(":")[0]
    return "-" not in head or head.startswith("gfx")

def _complete_short(kind, text, where):
    if _is_name(text.split(":")[0]) or any([c in text for c in [",", ";", " "]]):
        check_processor(text, where, kind)
    target_id = _canonical(text, where)
    nvidia = text.startswith("sm_")
    if nvidia and kind in ("hip", "hipv4"):
        fail("{}: {} is not an AMD GPU, which kind {} is for: name a target ID such as gfx942".format(where, text, kind))
    if nvidia:
        triple = _NVPTX_TRIPLE
    elif text == _SPIRV_PROCESSOR:
        triple = _SPIRV_TRIPLE
    else:
        triple = _AMDGPU_TRIPLE
    return _target(kind, triple, target_id)

def _complete(kind, text, where):
    """Parses a target as users write it.

    Args:
      kind: the offload kind of short forms.
      text: `gfx90a:xnack+`, `sm_90`, a triple such as `x86_64-pc-linux-gnu`, or an
        entry ID such as `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+`.
      where: prefix of error messages.

    Returns:
      a struct with kind, triple (standard form, four fields), target_id, id (the entry ID) and portable (whether it is
      AMD's portable code, SPIR-V).
    """
    if kind == "hipv4" and text in _HIP_TARGETS:
        return _HIP_TARGETS[text]
    head = text.split(":")[0]
    if _is_short(text):
        return _complete_short(kind, text, where)
    if _is_arch(head.split("-")[0]) and text.count("-") >= 3:
        text = kind + "-" + text
    fields = text.split("-", 5)
    if fields[0] not in _KINDS:
        fail("{}: target {}: offload kind {}, expected one of {}. Use a target ID like gfx942, or a full entry ID like hipv4-amdgcn-amd-amdhsa--gfx942".format(
            where,
            repr(text),
            repr(fields[0]),
            ", ".join(_KINDS),
        ))
    if len(fields) < 5:
        fail("{}: target {} has {} fields, expected <kind>-<arch>-<vendor>-<os>-<environment>[-<target ID>]".format(
            where,
            repr(text),
            len(fields),
        ))
    target_id = fields[5] if len(fields) == 6 else ""
    triple = fields[1:5]
    if fields[4].startswith("gfx") or fields[4].startswith("sm_"):
        # The three-field triple of older releases.
        target_id, triple[3] = "-".join(fields[4:]), ""
    for field in triple:
        if field and not _is_name(field):
            fail("{}: target {}: {} is not part of a triple".format(where, repr(text), repr(field)))
    triple = [field or "unknown" for field in triple]
    if triple[2].startswith("amdhsa"):
        triple[3] = ""
    return _target(fields[0], "-".join(triple), _canonical(target_id, where) if target_id else "")

def _complete_all(kind, texts, where, attribute):
    """Completes the targets of an attribute. Fails if one is listed twice.

    Args:
      kind: the offload kind of short forms.
      texts: list of strings.
      where: prefix of error messages.
      attribute: name of the attribute, for messages.

    Returns:
      list of structs returned by _complete.
    """
    seen = {}
    targets = []
    place = where + ": " + attribute
    for text in texts:
        target = _complete(kind, text, place)
        if target.id in seen:
            fail("{}: {} names {} twice{}".format(
                where,
                attribute,
                text,
                "" if seen[target.id] == text else ": also as " + seen[target.id],
            ))
        seen[target.id] = text
        targets.append(target)
    return targets

def _fail_twice(images, where):
    """Fails because two images have the same entry ID."""
    by_id = {}
    for image in images:
        if image.id in by_id:
            fail("{}: two images for {}: from {} and from {}. A bundle has one entry for each target; remove one, or use two bundles.".format(
                where,
                image.target_id or image.id,
                name_of(by_id[image.id].label),
                name_of(image.label),
            ))
        by_id[image.id] = image

def _check(images, where):
    """Fails if two images cannot be in the same bundle.

    Target ID rule: for each kind, triple and processor, a feature that one entry
    specifies must be specified by all entries.

    Args:
      images: list of `offload_image()` structs.
      where: prefix of error messages, `label: rule`.
    """
    if len({image.id: None for image in images}) < len(images):
        _fail_twice(images, where)
    if not any([":" in image.target_id for image in images]):
        return
    by_processor = {}
    for image in images:
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
            fail(("{}: images of {} and {} cannot be in one bundle: if one specifies {}, all entries of the processor must specify it (target ID rules).\n" +
                  "From {} ({}) and {} ({}). {}, or use two bundles.").format(
                where,
                first.target_id,
                image.target_id,
                feature,
                name_of(first.label),
                first.target_id,
                name_of(image.label),
                image.target_id,
                "Write {} for both, because it always has {}".format(processor, feature) if feature in FIXED_FEATURES.get(processor, []) else "Specify it for both",
            ))

def _serves(entry, request):
    """Reports whether the code of an entry is compatible with a requested target.

    Kinds and triples must match (hip and hipv4 are the same kind here), the processor
    must be the same, and the request must have every feature that the entry specifies.

    Args:
      entry: struct with kind, triple and target_id, returned by `complete`.
      request: the same.

    Returns:
      True or False.
    """
    if entry.kind.removesuffix("v4") != request.kind.removesuffix("v4") or not _triples_agree(entry.triple, request.triple):
        return False
    if entry.target_id == request.target_id:
        return True
    entry_parts = entry.target_id.split(":")
    request_parts = request.target_id.split(":")
    return entry_parts[0] == request_parts[0] and all([feature in request_parts for feature in entry_parts])

def _check_served(entry_ids, requests, where, bundle):
    """Fails if no entry of a bundle is compatible with a request.

    Args:
      entry_ids: list of the entry IDs in the bundle.
      requests: list of structs returned by `complete`.
      where: prefix of error messages, `label: rule`.
      bundle: the bundle's name, for messages.
    """
    entries = [_complete("", id, where) for id in entry_ids]
    for request in requests:
        if not any([_serves(entry, request) for entry in entries]):
            fail("{}: targets: {} has no image for {}. It has {}".format(
                where,
                bundle,
                request.target_id or request.id,
                ", ".join([entry.target_id or id for entry, id in zip(entries, entry_ids)]),
            ))

def _name(target):
    """Returns the target ID as the name of a target, or the triple of a CPU."""
    return target.target_id or target.triple.removesuffix("-")

def _is_target(text):
    """Reports whether the prefix of a flag is a target: a triple, a processor or a target ID."""
    head = text.split(":")[0]
    if _is_arch(head.split("-")[0]):
        return "-" in head
    return head == _SPIRV_PROCESSOR or head.startswith("sm_") or head.startswith("gfx")

def _check_name(text, where):
    """Fails if a text for which `is_target` is true has a processor that LLVM does not know."""
    if not _is_arch(text.split("-")[0]):
        check_processor(text, where)

def _matches(text, target):
    """Reports whether a text for which `is_target` is true matches a target: its triple, processor or target ID."""
    if _is_arch(text.split("-")[0]):
        return _triples_agree(text.removesuffix("-").removesuffix("-unknown"), target.triple.removesuffix("-").removesuffix("-unknown"))
    parts = target.target_id.split(":")
    wanted = text.split(":")
    return wanted[0] == parts[0] and all([feature in parts for feature in wanted])

def _file_name(target_id):
    """Returns the target ID as part of a path."""
    return target_id.replace(":", "_")

target_ids = struct(
    amdgpu_triple = _AMDGPU_TRIPLE,
    bundle_kinds = _BUNDLE_KINDS,
    canonical = _canonical,
    check = _check,
    check_name = _check_name,
    check_served = _check_served,
    complete = _complete,
    complete_all = _complete_all,
    entry_id = _entry_id,
    file_name = _file_name,
    image = _image,
    is_amdgpu = _is_amdgpu,
    is_target = _is_target,
    kinds = _KINDS,
    matches = _matches,
    name = _name,
    runtime_triple = _runtime_triple,
    serves = _serves,
    target = _target,
)
