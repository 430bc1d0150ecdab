"""Common code of rules that provide and use images."""

load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadImagesInfo")
load(":messages.bzl", "name_of")
load(":target_ids.bzl", "target_ids")

def image_groups(images):
    """Returns output groups: the images of each target, and `debug_info` if any was split off.

    Args:
      images: list of `offload_image()`.

    Returns:
      dict from the target ID, or the triple of an image without a target ID, or `debug_info`, to a
      depset of Files.
    """
    groups = {}
    split = [image.debug_info for image in images if getattr(image, "debug_info", None)]
    if split:
        groups["debug_info"] = split
    for image in images:
        groups.setdefault(target_ids.name(image), []).append(image.file)
    return {name: depset(files) for name, files in groups.items()}

def _entry(image):
    return "--entry=" + image.id + "=" + image.file.path

def add_entries(args, empty, images):
    """Adds the entries of a bundle to arguments of the program.

    Args:
      args: an `Args`.
      empty: list of the entry IDs of empty entries, which come first.
      images: list of `offload_image()`.
    """
    if empty:
        args.add_all(empty, format_each = "--entry=%s=")
    args.add_all(images, map_each = _entry)

# The attribute of a rule that combines images. It allows files, so that the error message can explain what to do.
IMAGES_ATTRS = {
    "images": attr.label_list(
        doc = "Targets that provide the device images to combine, in this order.",
        mandatory = True,
        allow_files = True,
        providers = [OffloadImagesInfo],
    ),
}

def images_of(ctx, where):
    """Returns the images of the attribute `images`; fails if it has files, or if its targets have no image.

    Args:
      ctx: the rule's context; the rule has `IMAGES_ATTRS`.
      where: prefix of error messages, `label: rule`.

    Returns:
      list of `offload_image()`.
    """
    check_images(ctx.attr.images, where)
    for dep in ctx.attr.images:
        if OffloadImagesInfo not in dep:
            fail("{}: images: {} is a file without a target: wrap files in offload_images, e.g. offload_images(name = \"code\", srcs = {{{}: \"gfx942\"}})".format(
                where,
                name_of(dep.label),
                repr(dep.label.name),
            ))
    images = depset(transitive = [dep[OffloadImagesInfo].images for dep in ctx.attr.images]).to_list()
    if not images:
        fail("{}: images: no image in {}".format(where, ", ".join([name_of(dep.label) for dep in ctx.attr.images])))
    return images

def check_images(images, where):
    """Fails if the attribute `images` is empty.

    Args:
      images: its value, a list.
      where: prefix of error messages, `label: rule`.
    """
    if not images:
        fail("{}: images is empty: add targets with device images, such as hip_code_objects".format(where))

def image_providers(ctx, images):
    """Returns the providers of a rule that only produces images.

    Args:
      ctx: the rule's context.
      images: list of `offload_image()`.

    Returns:
      list of providers.
    """
    files = [image.file for image in images]
    return [
        DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files)),
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(**image_groups(images)),
    ]

# The attribute of a rule whose targets can have any offload kind.
KIND_ATTRS = {
    "kind": attr.string(
        doc = "Offload kind of targets that do not specify one.",
        default = "hipv4",
        values = [kind for kind in target_ids.kinds if kind != "host"],
    ),
}

def declare_images(ctx, targets, extension):
    """Declares a file for each target, in a directory with the name of the rule's target.

    Args:
      ctx: the rule's context.
      targets: list of structs returned by `target_ids.complete`.
      extension: extension of the files.

    Returns:
      list of `offload_image()`.
    """
    names = {}
    images = []
    for target in targets:
        # Targets of different kinds can have the same target ID.
        name = target_ids.name(target)
        if name in names:
            name = target.id
        names[name] = None
        file = ctx.actions.declare_file("{}/{}.{}".format(ctx.label.name, target_ids.file_name(name), extension))
        images.append(target_ids.image(target, file, ctx.label))
    return images

def bundles_in(target):
    """Returns the bundles of a target, such as a `hip_library`, which has one for each source.

    Args:
      target: the Target.

    Returns:
      list of Files.
    """
    if OffloadBundleInfo in target:
        return [target[OffloadBundleInfo].file]
    if OutputGroupInfo in target and "bundle" in target[OutputGroupInfo]:
        return target[OutputGroupInfo].bundle.to_list()
    return []

def require_bundle(target, where, attribute):
    """Fails if a target has images instead of bundles. Other files can be bundles.

    Args:
      target: the Target.
      where: prefix of error messages, `label: rule`.
      attribute: name of the attribute, for messages.
    """
    if OffloadImagesInfo in target and not bundles_in(target):
        name = name_of(target.label)
        fail("{}: {}: {} has no bundle: combine its images with offload_bundle(images = [{}])".format(where, attribute, name, repr(name)))

def container_of(target, info, where, attribute):
    """Returns the file with images of a target, such as its bundle, or its only file.

    Args:
      target: the Target.
      info: providers whose `file` takes precedence over the default output, such as `OffloadBundleInfo`.
      where: prefix of error messages, `label: rule`.
      attribute: name of the attribute, for messages.

    Returns:
      a File.
    """
    for provider in info:
        if provider in target:
            return target[provider].file
    files = target[DefaultInfo].files.to_list()
    bundles = bundles_in(target) if OffloadBundleInfo in info else []
    if len(bundles) > 1:
        fail("{}: {}: {} has a bundle for each of its {} sources, expected one bundle; set rdc = True, or use a target for each source".format(where, attribute, name_of(target.label), len(bundles)))
    if len(files) != 1:
        fail("{}: {}: {} has {} files, expected one; name a file, or a target with one".format(where, attribute, name_of(target.label), len(files)))
    return files[0]
