"""offload_per_arch builds targets once for each architecture."""

load("//rules:providers.bzl", "OffloadImagesInfo")
load(":arch_groups.bzl", "expand_archs")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "architectures_of", "named_architectures")
load(":images.bzl", "check_images", "image_providers")
load(":messages.bzl", "name_of", "place")
load(":native.bzl", "NATIVE_SETTING")
load(":target_ids.bzl", "target_ids")

_ARCH = "//rules/settings:offload_arch"
_ARCHS = "//rules/settings:offload_archs"
_PROCESSOR = "//rules/settings:offload_processor"

def _architectures(settings, attr):
    return expand_archs(attr.offload_archs or settings[_ARCHS], settings[NATIVE_SETTING])

def _per_arch_impl(settings, attr):
    archs = _architectures(settings, attr)
    return {
        arch: {
            _ARCH: arch,
            _ARCHS: [arch],
            _PROCESSOR: arch.split(":")[0],
        }
        for arch in archs
        # Without architectures, the rule fails with a better message.
    } or {"": {_ARCH: "", _ARCHS: [], _PROCESSOR: ""}}

_per_arch = transition(
    implementation = _per_arch_impl,
    inputs = [_ARCHS, NATIVE_SETTING],
    outputs = [_ARCH, _ARCHS, _PROCESSOR],
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
    check_images(ctx.split_attr.images.values(), where)
    images = []
    for arch, target in zip(named_architectures(ctx), targets):
        deps = ctx.split_attr.images[arch]
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

offload_per_arch = rule(
    implementation = _offload_per_arch_impl,
    doc = """Builds targets and their dependencies once for each architecture.

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
""",
    attrs = ARCHITECTURES_ATTRS | {
        "images": attr.label_list(
            doc = "Targets that provide images for the architecture that they are built for. Their attribute `offload_archs` must be empty.",
            mandatory = True,
            cfg = _per_arch,
            providers = [OffloadImagesInfo],
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    provides = [OffloadImagesInfo],
)
