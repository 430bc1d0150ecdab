"""Providers that the rules give and take.

They are the way to write a rule of your own that makes device images for
`offload_bundle`, or reads what it made:

```starlark
load("@rules_offload//rules:providers.bzl", "OffloadImagesInfo", "offload_image")

def _impl(ctx):
    ...
    return [OffloadImagesInfo(images = depset([
        offload_image(kind = "hipv4", triple = "amdgcn-amd-amdhsa-", target_id = "gfx942", file = out, label = ctx.label),
    ]))]
```
"""

load("//rules/private:messages.bzl", "name_of")
load("//rules/private:target_ids.bzl", "target_ids")

def offload_image(*, kind, triple, target_id, file, label):
    """One device image: code for one target.

    Args:
      kind: offload kind: `hip`, `hipv4`, `openmp`, `cuda`, `sycl` or `host`.
      triple: target triple in standard form, e.g. `amdgcn-amd-amdhsa-`
        (four fields; the environment of amdhsa is empty).
      target_id: target ID, e.g. `gfx90a:xnack+`; empty for host images.
      file: the `File` with the image.
      label: `Label` of the target that made it, for messages.

    Returns:
      A struct with these fields and `id`, the entry ID in a bundle.
    """
    if kind not in target_ids.kinds:
        fail("{}: offload_image: kind {} is none of {}".format(name_of(label), repr(kind), ", ".join(target_ids.kinds)))
    if triple.count("-") != 3:
        fail("{}: offload_image: triple {} does not have four fields, as amdgcn-amd-amdhsa- has (the last one is empty)".format(name_of(label), repr(triple)))
    if type(file) != "File":
        fail("{}: offload_image: file must be a File, got {}".format(name_of(label), type(file)))
    return struct(
        file = file,
        id = target_ids.entry_id(kind, triple, target_id),
        kind = kind,
        label = label,
        target_id = target_id and target_ids.canonical(target_id, "{}: offload_image".format(name_of(label))),
        triple = triple,
    )

def _images_init(*, images):
    if type(images) != "depset":
        fail("OffloadImagesInfo: images must be a depset of offload_image(), got {}".format(type(images)))
    return {"images": images}

OffloadImagesInfo, _new_images_info = provider(
    doc = "Device images that can go into a bundle, an offload binary, or wherever images go.",
    fields = {
        "images": "depset of `offload_image()` structs, in the order in which they go into a bundle.",
    },
    init = _images_init,
)

def _bundle_init(*, file, entry_ids, type, compressed):
    if not entry_ids:
        fail("OffloadBundleInfo: {}: a bundle needs at least one entry".format(file.short_path))
    if compressed not in (True, False):
        fail("OffloadBundleInfo: {}: compressed must be True or False, got {}".format(file.short_path, repr(compressed)))
    return {
        "compressed": compressed,
        "entry_ids": entry_ids,
        "file": file,
        "type": type,
    }

OffloadBundleInfo, _new_bundle_info = provider(
    doc = "A bundle of device images in one file.",
    fields = {
        "compressed": "True when the file is a compressed bundle (CCOB).",
        "entry_ids": "list of the entry IDs in the bundle, in order, in standard form.",
        "file": "the bundle, a `File`.",
        "type": "file type as `clang-offload-bundler -type` names it, e.g. `o`, `bc`, `s`.",
    },
    init = _bundle_init,
)

def _binary_init(*, file, images):
    if type(images) != "depset":
        fail("OffloadBinaryInfo: {}: images must be a depset of offload_image(), got {}".format(file.short_path, type(images)))
    return {"file": file, "images": images}

OffloadBinaryInfo, _new_binary_info = provider(
    doc = "An offload binary, the container that clang embeds into host objects.",
    fields = {
        "file": "the offload binary, a `File`.",
        "images": "depset of the `offload_image()` structs in it.",
    },
    init = _binary_init,
)

def _device_objects_init(*, objects):
    if type(objects) != "depset":
        fail("OffloadDeviceObjectsInfo: objects must be a depset, got {}".format(type(objects)))
    return {"objects": objects}

OffloadDeviceObjectsInfo, _new_device_objects_info = provider(
    doc = "Relocatable device code, of which device links take what they need (`device_deps`).",
    fields = {
        "objects": "depset of structs, one for each source and target: id (the entry ID of the target), file (LLVM bitcode), label (the target that it was compiled for). Those of `device_deps` are among them.",
    },
    init = _device_objects_init,
)

def offload_bitcode(*, file, label, target_id = ""):
    """LLVM bitcode with device functions, for `OffloadDeviceBitcodeInfo`.

    Args:
      file: the `File`.
      label: `Label` of the target that made it, for messages.
      target_id: what it is for: a target ID such as `gfx90a:xnack+`, a processor, which is for all settings of its
        features, `amdgcnspirv`, or empty for all AMD GPUs.

    Returns:
      a struct with these fields.
    """
    if type(file) != "File":
        fail("{}: offload_bitcode: file must be a File, got {}".format(name_of(label), type(file)))
    return struct(
        file = file,
        label = label,
        target_id = target_id and target_ids.canonical(target_id, "{}: offload_bitcode".format(name_of(label))),
    )

def _device_bitcode_init(*, bitcode):
    if type(bitcode) != "depset":
        fail("OffloadDeviceBitcodeInfo: bitcode must be a depset of offload_bitcode(), got {}".format(type(bitcode)))
    return {"bitcode": bitcode}

OffloadDeviceBitcodeInfo, _new_device_bitcode_info = provider(
    doc = "Device functions as LLVM bitcode, which compilations link as clang links ROCm's device libraries (`device_deps`).",
    fields = {
        "bitcode": "depset of `offload_bitcode()` structs, `order = \"topological\"`: each before what it needs.",
    },
    init = _device_bitcode_init,
)

def _device_code_init(*, code):
    if type(code) != "depset":
        fail("OffloadDeviceCodeInfo: code must be a depset, got {}".format(type(code)))
    return {"code": code}

OffloadDeviceCodeInfo, _new_device_code_info = provider(
    doc = "The device code that reaches a target. The aspect `offload_device_code_aspect` makes it.",
    fields = {
        "code": "depset of structs, one for each target that makes device code: label, form (`bundle`, `offload binary` or `images`), entry_ids (tuple of entry IDs).",
    },
    init = _device_code_init,
)
