"""Rules that stand in for others, so that each test sees one rule alone."""

load("//rules:providers.bzl", "OffloadBinaryInfo", "OffloadBundleInfo", "OffloadDeviceBitcodeInfo", "OffloadDeviceCodeInfo", "OffloadDeviceObjectsInfo", "OffloadImagesInfo", "offload_bitcode", "offload_image")
load("//rules/private:target_ids.bzl", "target_ids")  # buildifier: disable=bzl-visibility

def _images_impl(ctx):
    images = []
    for i, text in enumerate(ctx.attr.targets):
        target = target_ids.complete(ctx.attr.kind, text, str(ctx.label))
        file = ctx.actions.declare_file("{}/{}".format(ctx.label.name, i))
        ctx.actions.write(file, text)
        images.append(offload_image(
            file = file,
            kind = target.kind,
            label = ctx.label,
            target_id = target.target_id,
            triple = target.triple,
        ))
    return [OffloadImagesInfo(images = depset(images))]

# Images of these targets, each with a file of its own.
images = rule(
    implementation = _images_impl,
    attrs = {
        "kind": attr.string(default = "hipv4"),
        "targets": attr.string_list(),
    },
)

def _directory_impl(ctx):
    directory = ctx.actions.declare_directory(ctx.label.name)
    ctx.actions.run_shell(command = ":", outputs = [directory])
    return [DefaultInfo(files = depset([directory]))]

# A directory with files that are known only after it is made.
directory = rule(implementation = _directory_impl)

def _layer_impl(_ctx):
    return []

# A layer of a container: files by their path in it.
layer = rule(
    implementation = _layer_impl,
    attrs = {"srcs": attr.string_keyed_label_dict(allow_files = True)},
)

# A container of layers.
container = rule(
    implementation = _layer_impl,
    attrs = {
        "base": attr.label(),
        "layers": attr.label_list(),
    },
)

def _bad_provider_impl(ctx):
    file = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(file, "")
    case = ctx.attr.case
    if case == "images":
        return [OffloadImagesInfo(images = [])]
    if case == "entries":
        return [OffloadBundleInfo(file = file, entry_ids = [], type = "o", compressed = False)]
    if case == "compressed":
        return [OffloadBundleInfo(file = file, entry_ids = ["host-x86_64-unknown-linux-gnu-"], type = "o", compressed = "zstd")]
    if case == "binary":
        return [OffloadBinaryInfo(file = file, images = [])]
    if case == "bitcode":
        return [OffloadDeviceBitcodeInfo(bitcode = [])]
    if case == "bitcode_file":
        return [OffloadDeviceBitcodeInfo(bitcode = depset([offload_bitcode(file = file.path, label = ctx.label)]))]
    if case == "code":
        return [OffloadDeviceCodeInfo(code = [])]
    if case == "objects":
        return [OffloadDeviceObjectsInfo(objects = [])]
    image = {
        "file": file,
        "kind": "hip",
        "label": ctx.label,
        "target_id": "gfx942",
        "triple": "amdgcn-amd-amdhsa-",
    } | {
        "file": {"file": file.path},
        "kind": {"kind": "rocm"},
        "target_id": {"target_id": "gfx942:"},
        "triple": {"triple": "amdgcn-amd-amdhsa"},
    }[case]
    offload_image(**image)
    return []

# Makes a provider wrongly.
bad_provider = rule(
    implementation = _bad_provider_impl,
    attrs = {"case": attr.string(mandatory = True)},
)
