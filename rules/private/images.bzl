"""What rules that give and take images have in common."""

load("//rules:providers.bzl", "OffloadImagesInfo", "offload_image")
load(":messages.bzl", "name_of")
load(":target_ids.bzl", "target_ids")

def image_groups(images):
    """The images of each target, as output groups.

    Args:
      images: list of `offload_image()`.

    Returns:
      dict from the target ID, or the triple of an image that has none, to a depset
      of Files.
    """
    groups = {}
    for image in images:
        groups.setdefault(target_ids.name(image), []).append(image.file)
    return {name: depset(files) for name, files in groups.items()}

def images_of(ctx, where):
    """The images of the attribute `images`; fails if it has files.

    Args:
      ctx: the rule's context; its attribute `images` allows files, so that a message can say what to do with them.
      where: `label: rule` to begin a message with.

    Returns:
      depset of `offload_image()`.
    """
    for dep in ctx.attr.images:
        if OffloadImagesInfo not in dep:
            fail("{}: images: {} is a file, of which nobody knows what it is for: wrap files in offload_images, e.g. offload_images(name = \"code\", srcs = {{{}: \"gfx942\"}})".format(
                where,
                name_of(dep.label),
                repr(dep.label.name),
            ))
    return depset(transitive = [dep[OffloadImagesInfo].images for dep in ctx.attr.images])

def image_providers(ctx, images):
    """What a rule returns that makes images and nothing else.

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

# The attribute of a rule that takes images out of something; the rule has `kind`, too.
TARGETS_ATTRS = {
    "targets": attr.string_list(
        doc = "Target IDs such as `gfx90a:xnack+`, triples such as `x86_64-pc-linux-gnu`, or whole entry IDs such as `openmp-amdgcn-amd-amdhsa--gfx90a`.",
        mandatory = True,
    ),
}

def targets_of(ctx, where):
    """The targets that a rule is asked for.

    Args:
      ctx: the rule's context; the rule has `TARGETS_ATTRS` and `kind`.
      where: `label: rule` to begin a message with.

    Returns:
      list of structs as `target_ids.complete_all` gives them.
    """
    if not ctx.attr.targets:
        fail("{}: targets is empty: name the targets to take out, e.g. [\"gfx942\"]".format(where))
    return target_ids.complete_all(ctx.attr.kind, ctx.attr.targets, where, "targets")

def declare_images(ctx, targets, extension):
    """Declares a file for each target, in a folder of the rule's name.

    Args:
      ctx: the rule's context.
      targets: what `targets_of` gave.
      extension: of the files.

    Returns:
      list of `offload_image()`.
    """
    names = {}
    images = []
    for target in targets:
        # Targets of several kinds can have one target ID.
        name = target_ids.name(target)
        if name in names:
            name = target_ids.entry_id(target.kind, target.triple, target.target_id)
        names[name] = None
        images.append(offload_image(
            file = ctx.actions.declare_file("{}/{}.{}".format(ctx.label.name, target_ids.file_name(name), extension)),
            kind = target.kind,
            label = ctx.label,
            target_id = target.target_id,
            triple = target.triple,
        ))
    return images

def container_of(target, info, where, attribute):
    """The file with images that a target stands for: its bundle, say, or its only file.

    Args:
      target: the Target.
      info: providers whose `file` goes before the default output, such as `OffloadBundleInfo`.
      where: `label: rule` to begin a message with.
      attribute: name of the attribute, for messages.

    Returns:
      a File.
    """
    for provider in info:
        if provider in target:
            return target[provider].file
    files = target[DefaultInfo].files.to_list()
    bundles = target[OutputGroupInfo].bundle.to_list() if OutputGroupInfo in target and "bundle" in target[OutputGroupInfo] else []
    if len(bundles) > 1:
        fail("{}: {}: {} has a bundle for each of its {} sources; give it rdc = True, or take it apart source by source".format(where, attribute, name_of(target.label), len(bundles)))
    if len(files) != 1:
        fail("{}: {}: {} gives {} files; name a target with one, or a file".format(where, attribute, name_of(target.label), len(files)))
    return files[0]
