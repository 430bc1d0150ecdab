"""offload_per_arch: the same targets once for each architecture."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("//rules:providers.bzl", "OffloadImagesInfo")
load(":messages.bzl", "name_of", "place")
load(":target_ids.bzl", "target_ids")

_ARCH = "//rules/settings:offload_arch"
_ARCHS = "//rules/settings:offload_archs"
_PROCESSOR = "//rules/settings:offload_processor"

def _architectures(settings, attr):
    return attr.offload_archs or settings[_ARCHS]

def _per_arch_impl(settings, attr):
    archs = _architectures(settings, attr)
    return {
        arch: {
            _ARCH: arch,
            _ARCHS: [arch],
            _PROCESSOR: arch.split(":")[0],
        }
        for arch in archs
        # No architecture is a failure of the rule, which has a better message.
    } or {"": {_ARCH: "", _ARCHS: [], _PROCESSOR: ""}}

_per_arch = transition(
    implementation = _per_arch_impl,
    inputs = [_ARCHS],
    outputs = [_ARCH, _ARCHS, _PROCESSOR],
)

def _offload_per_arch_impl(ctx):
    where = place(ctx, "offload_per_arch")
    archs = ctx.attr.offload_archs or ctx.attr._offload_archs[BuildSettingInfo].value
    if not archs:
        fail("{}: no architectures: set offload_archs, e.g. [\"gfx90a\", \"gfx942\"], or build with --{}=gfx90a,gfx942".format(
            where,
            ctx.attr._offload_archs.label,
        ))
    target_ids.complete_all("hipv4", archs, where, "offload_archs")
    groups = {}
    for arch in archs:
        deps = ctx.split_attr.images[arch]
        for image in depset(transitive = [dep[OffloadImagesInfo].images for dep in deps]).to_list():
            if image.target_id != arch and image.target_id != target_ids.canonical(arch, where):
                fail("{}: images: {}, built for {}, gives an image for {}: leave its own offload_archs empty, or list it where the architectures are not split".format(
                    where,
                    name_of(image.label),
                    arch,
                    image.target_id or image.id,
                ))
            groups.setdefault(image.target_id, []).append(image.file)
    images = depset(transitive = [
        dep[OffloadImagesInfo].images
        for arch in archs
        for dep in ctx.split_attr.images[arch]
    ])
    return [
        DefaultInfo(files = depset(transitive = [depset(files) for files in groups.values()])),
        OffloadImagesInfo(images = images),
        OutputGroupInfo(**{arch: depset(files) for arch, files in groups.items()}),
    ]

offload_per_arch = rule(
    implementation = _offload_per_arch_impl,
    doc = """Builds targets once for each architecture, each time with all that they depend on.

Most rules need no such thing: `hip_code_objects` compiles the same sources for all its architectures. It is for sources,
headers or flags that differ: below it `select` chooses by the `config_setting`s of `@rules_offload//rules/arch`, such as
`@rules_offload//rules/arch:gfx942`, and a generator sees the setting `@rules_offload//rules/settings:offload_arch`.
""",
    attrs = {
        "images": attr.label_list(
            doc = "Targets that give device images, and leave their own `offload_archs` empty.",
            mandatory = True,
            cfg = _per_arch,
            providers = [OffloadImagesInfo],
        ),
        "offload_archs": attr.string_list(
            doc = "Target IDs such as `gfx942` or `gfx90a:xnack+`. If empty, the setting `//rules/settings:offload_archs`.",
        ),
        "_offload_archs": attr.label(
            default = _ARCHS,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    provides = [OffloadImagesInfo],
)
