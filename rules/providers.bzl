"""Providers of the rules.

Use them to write your own rules that produce device images for
`offload_bundle`, or that read bundles:

```starlark
load("@rules_offload//rules:providers.bzl", "OffloadImagesInfo", "offload_image")

def _impl(ctx):
    out = ctx.file.src  # a code object for gfx942
    return [OffloadImagesInfo(images = depset([
        offload_image(kind = "hipv4", triple = "amdgcn-amd-amdhsa-", target_id = "gfx942", file = out, label = ctx.label),
    ]))]
```
"""

load("//rules/private:messages.bzl", "name_of")
load("//rules/private:target_ids.bzl", "target_ids")

def offload_image(*, kind, triple, target_id, file, label, debug_info = None):
    """Describes a device image, which is a file with code for one target.

    Args:
      kind: offload kind, such as `hip`, `hipv4`, `openmp` or `host`.
      triple: target triple in standard form, e.g. `amdgcn-amd-amdhsa-`
        (four fields; the environment of amdhsa is empty).
      target_id: target ID, e.g. `gfx90a:xnack+`; empty for host images.
      file: the `File` with the image.
      label: `Label` of the target that produced it, for messages.
      debug_info: the `File` with the debug information that was split off the image, or None.

    Returns:
      a struct with these fields and `id`, the entry ID in a bundle.
    """
    if kind not in target_ids.kinds:
        fail("{}: offload_image: kind {}, expected one of {}".format(name_of(label), repr(kind), ", ".join(target_ids.kinds)))
    if triple.count("-") != 3:
        fail("{}: offload_image: triple {}, expected four fields, such as amdgcn-amd-amdhsa- (the last one is empty)".format(name_of(label), repr(triple)))
    if type(file) != "File":
        fail("{}: offload_image: file must be a File, found {}".format(name_of(label), type(file)))
    canonical = target_id and target_ids.canonical(target_id, name_of(label) + ": offload_image")
    return target_ids.image(target_ids.target(kind, triple, canonical), file, label, debug_info)

def _images_init(*, images):
    if type(images) != "depset":
        fail("OffloadImagesInfo: images must be a depset of offload_image(), found {}".format(type(images)))
    return {"images": images}

OffloadImagesInfo, _new_images_info = provider(
    doc = "Device images, for a bundle, an offload binary, or any other rule with an attribute `images`.",
    fields = {
        "images": "depset of `offload_image()` structs, in the order of the entries in a bundle.",
    },
    init = _images_init,
)

def _bundle_init(*, file, entry_ids, type, compressed):
    if not entry_ids:
        fail("OffloadBundleInfo: {}: a bundle requires at least one entry".format(file.short_path))
    if compressed not in (True, False):
        fail("OffloadBundleInfo: {}: compressed must be True or False, found {}".format(file.short_path, repr(compressed)))
    return {
        "compressed": compressed,
        "entry_ids": entry_ids,
        "file": file,
        "type": type,
    }

OffloadBundleInfo, _new_bundle_info = provider(
    doc = "A bundle of device images in one file.",
    fields = {
        "compressed": "True if the file is a compressed bundle (CCOB).",
        "entry_ids": "list of the entry IDs in the bundle, in order, in standard form.",
        "file": "the bundle, a `File`.",
        "type": "file type, as in `clang-offload-bundler -type`, e.g. `o`, `bc`, `s`.",
    },
    init = _bundle_init,
)

def _binary_init(*, file, images):
    if type(images) != "depset":
        fail("OffloadBinaryInfo: {}: images must be a depset of offload_image(), found {}".format(file.short_path, type(images)))
    return {"file": file, "images": images}

OffloadBinaryInfo, _new_binary_info = provider(
    doc = "An offload binary, which is the container that clang embeds into host objects.",
    fields = {
        "file": "the offload binary, a `File`.",
        "images": "depset of the `offload_image()` structs in it.",
    },
    init = _binary_init,
)

def _device_objects_init(*, objects):
    if type(objects) != "depset":
        fail("OffloadDeviceObjectsInfo: objects must be a depset, found {}".format(type(objects)))
    return {"objects": objects}

OffloadDeviceObjectsInfo, _new_device_objects_info = provider(
    doc = "Relocatable device code (`device_deps`). Device links include only the parts that they need.",
    fields = {
        "objects": "depset of structs, one for each source and target: id (the entry ID of the target), file (LLVM bitcode), label (the target that it was compiled for), source (what it was compiled from, for messages; may be missing). It includes the objects of `device_deps`.",
    },
    init = _device_objects_init,
)

def offload_bitcode(*, file, label, target_id = ""):
    """Describes LLVM bitcode with device functions, for `OffloadDeviceBitcodeInfo`.

    Args:
      file: the `File` with the bitcode.
      label: `Label` of the target that produced it, for messages.
      target_id: the architecture of the bitcode: a target ID such as `gfx90a:xnack+`, a processor (for all settings of
        its features), `amdgcnspirv`, or empty for all AMD GPUs.

    Returns:
      a struct with these fields.
    """
    if type(file) != "File":
        fail("{}: offload_bitcode: file must be a File, found {}".format(name_of(label), type(file)))
    return struct(
        file = file,
        label = label,
        target_id = target_id and target_ids.canonical(target_id, "{}: offload_bitcode".format(name_of(label))),
    )

def _device_bitcode_init(*, bitcode):
    if type(bitcode) != "depset":
        fail("OffloadDeviceBitcodeInfo: bitcode must be a depset of offload_bitcode(), found {}".format(type(bitcode)))
    return {"bitcode": bitcode}

OffloadDeviceBitcodeInfo, _new_device_bitcode_info = provider(
    doc = "Device functions as LLVM bitcode (`device_deps`). Compilations link it in the same way as clang links ROCm's device libraries.",
    fields = {
        "bitcode": "depset of `offload_bitcode()` structs, `order = \"topological\"`: each one precedes its dependencies.",
    },
    init = _device_bitcode_init,
)

def _device_code_init(*, code):
    if type(code) != "depset":
        fail("OffloadDeviceCodeInfo: code must be a depset, found {}".format(type(code)))
    return {"code": code}

OffloadDeviceCodeInfo, _new_device_code_info = provider(
    doc = "The device code that a target depends on. The aspect `offload_device_code_aspect` provides it.",
    fields = {
        "code": "depset of structs, one for each target that produces device code: label, form (`bundle`, `offload binary` or `images`), entry_ids (tuple of entry IDs).",
    },
    init = _device_code_init,
)
