"""offload_per_arch builds targets once for each architecture."""

load("//rules:providers.bzl", "OffloadImagesInfo")
load(":arch_groups.bzl", "NATIVE", "expand_archs")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "architectures_of", "named_architectures")
load(":images.bzl", "check_images", "image_providers")
load(":messages.bzl", "name_of", "place")
load(":native.bzl", "NATIVE_SETTING")
load(":target_ids.bzl", "target_ids")

_ARCH = "//rules/settings:offload_arch"
_ARCHS = "//rules/settings:offload_archs"

def _split(settings, attr, detected):
    return {
        arch: {
            _ARCH: arch,
            _ARCHS: [arch],
        }
        for arch in expand_archs(attr.offload_archs or settings[_ARCHS], detected)
        # Without architectures, the rule fails with a better message.
    } or {"": {_ARCH: "", _ARCHS: []}}

_per_arch = transition(
    implementation = lambda settings, attr: _split(settings, attr, None),
    inputs = [_ARCHS],
    outputs = [_ARCH, _ARCHS],
)

# Bazel looks for the GPUs of this machine wherever this transition is used.
_per_native_arch = transition(
    implementation = lambda settings, attr: _split(settings, attr, settings[NATIVE_SETTING]),
    inputs = [_ARCHS, NATIVE_SETTING],
    outputs = [_ARCH, _ARCHS],
)

def _offload_per_arch_impl(ctx):
    where = place(ctx, "offload_per_arch")
    targets = [
        # The architecture determines the kind: only the image has more information than its target.
        target_ids.complete("cuda" if arch.startswith("sm_") else "hipv4", arch, where + ": offload_archs")
        for arch in named_architectures(ctx)
    ]
    if not targets:
        architectures_of(ctx, where, "hipv4")
    by_arch = ctx.split_attr.native_images if ctx.attr.native_images else ctx.split_attr.images
    check_images(by_arch.values(), where)
    images = []
    for arch, target in zip(named_architectures(ctx), targets):
        deps = by_arch[arch]
        for image in depset(transitive = [dep[OffloadImagesInfo].images for dep in deps]).to_list():
            if image.target_id != target.target_id:
                fail("{}: images: {}, built for {}, has an image for {}: leave its offload_archs empty, or list it outside of offload_per_arch".format(
                    where,
                    name_of(image.label),
                    arch,
                    image.target_id or image.id,
                ))
            images.append(image)
    return image_providers(ctx, images)

_offload_per_arch = rule(
    implementation = _offload_per_arch_impl,
    attrs = ARCHITECTURES_ATTRS | {
        "images": attr.label_list(
            cfg = _per_arch,
            providers = [OffloadImagesInfo],
        ),
        "native_images": attr.label_list(
            cfg = _per_native_arch,
            providers = [OffloadImagesInfo],
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    provides = [OffloadImagesInfo],
)

def offload_per_arch(name, images, offload_archs = [], **kwargs):
    """Builds targets and their dependencies once for each architecture.

    Most targets do not require this rule: `hip_code_objects` compiles the same sources for all its architectures. Use it if
    sources, headers or flags differ between architectures. In `images` and their dependencies, `if_arch` selects by the
    architecture, and a generator can read the setting `@rules_offload//rules/settings:offload_arch`. In other builds, targets with
    `if_arch` fail; `target_compatible_with = requires_arch()` lets `//...` skip them. `select` can also use the `config_setting`s
    of `@rules_offload//rules/arch`, such as `@rules_offload//rules/arch:gfx942`. It always fails in other builds, so the target
    requires the tag `manual`. If only sources or flags differ, use `arch_srcs` and `arch_copts` instead.

    ```starlark
    hip_code_objects(
        name = "gemm",
        srcs = ["gemm.hip"],
        hdrs = if_arch({"mi300": ["tiles_mfma.h"]}, ["tiles.h"]),
        target_compatible_with = requires_arch(),
    )

    offload_per_arch(
        name = "gemm_all",
        images = [":gemm"],
        offload_archs = ["gfx942", "gfx1100"],
    )
    ```

    Default outputs: the images of all architectures.

    Output groups: `gfx942` and so on, the images of one architecture.

    Args:
      name: name of the target.
      images: targets that provide images for the architecture that they are built for. Their attribute `offload_archs` must be
        empty.
      offload_archs: architectures to build for: target IDs such as `gfx942` or `gfx90a:xnack+`, groups such as `mi300`, and
        `native` for the GPUs of this machine. If empty, the value of the setting `//rules/settings:offload_archs`.
      **kwargs: attributes that all rules have, such as `visibility`.
    """
    always = type(offload_archs) != "list" or type(images) != "list" or NATIVE in offload_archs
    if always:
        plain, detected = [], images
    elif offload_archs:
        plain, detected = images, []
    else:
        native_in_setting = Label("//rules/settings:offload_archs_native")
        plain = select({native_in_setting: [], "//conditions:default": images})
        detected = select({native_in_setting: images, "//conditions:default": []})
    _offload_per_arch(
        name = name,
        images = plain,
        native_images = detected,
        offload_archs = offload_archs,
        **kwargs
    )
