"""hip_library: HIP sources, host and device code, for C++ programs."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadDeviceObjectsInfo", "OffloadImagesInfo")
load(":architectures.bzl", "ARCHITECTURES_ATTRS")
load(":bundling.bzl", "bundle_images")
load(":cc_flags.bzl", "cc_configuration", "device_flags")
load(":clang.bzl", "CLANG_GROUPS", "HEADERS")
load(":compression.bzl", "COMPRESSION_ATTRS")
load(":flags.bzl", "expand_flags")
load(":hip_compile.bzl", "DEVICE_DEPS_ATTRS", "hip_host_objects", "hip_images")
load(":images.bzl", "image_groups")
load(":libraries.bzl", "LIBRARY_ATTRS", "library_headers", "library_providers")
load(":linking.bzl", "HOST_ATTRS", "host_triple", "isolate_objects", "register_images")
load(":messages.bzl", "place")
load(":program.bzl", "PROGRAM_GROUPS")
load(":toolchains.bzl", "DEVICE_ATTRS")
load(":validation.bzl", "VALIDATION_ATTRS", "validate_bundle")

def _hip_library_impl(ctx):
    where = place(ctx, "hip_library")
    host = host_triple(ctx)
    cc = cc_configuration(ctx)
    copts = expand_flags(ctx, "copts")
    headers = library_headers(ctx, cc)
    images, device_objects = hip_images(
        ctx,
        copts = device_flags(ctx, cc) + copts + expand_flags(ctx, "device_copts"),
        headers = headers,
        linkopts = expand_flags(ctx, "device_linkopts"),
        rdc = True,
        where = where,
    )
    bundle = bundle_images(
        ctx,
        host = host,
        images = images,
        out = ctx.actions.declare_file(ctx.label.name + ".hipfb"),
        where = where,
    )
    host_objects = hip_host_objects(ctx, cc = cc, copts = copts + expand_flags(ctx, "host_copts"), headers = headers)
    objects = isolate_objects(ctx, host_objects)
    objects.append(register_images(ctx, files = [bundle.file], kind = "hip", own_entries = objects))
    return library_providers(ctx, headers = headers, objects = objects, runtime = ctx.attr._runtime) + [
        bundle,
        device_objects,
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(
            _validation = validate_bundle(ctx, bundle = bundle, images = images, linked = True, where = where),
            bundle = depset([bundle.file]),
            **image_groups(images)
        ),
    ]

hip_library = rule(
    implementation = _hip_library_impl,
    doc = """HIP sources with kernels and the host code that launches them, as a library for C++ programs.

Host and device code are compiled apart, each source and architecture in an action of its own; neither waits for the
other. The device code of all sources is linked together, for each architecture, and may call across sources. The
library registers its own kernels: a program may have any number of such libraries, from here or from elsewhere.

The runtime is what the setting `//rules/settings:hip_runtime` names, by default `-lamdhip64`.
""",
    attrs = DEVICE_ATTRS | DEVICE_DEPS_ATTRS | LIBRARY_ATTRS | ARCHITECTURES_ATTRS | HOST_ATTRS | VALIDATION_ATTRS | COMPRESSION_ATTRS | {
        "srcs": attr.label_list(
            doc = "HIP sources. Each is compiled by itself. Headers among them are for these sources alone.",
            mandatory = True,
            allow_files = [".hip", ".cu", ".cpp", ".cc", ".cxx"] + HEADERS,
        ),
        "_runtime": attr.label(
            default = "//rules/settings:hip_runtime",
            providers = [CcInfo],
        ),
    },
    exec_groups = CLANG_GROUPS | PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo, OffloadBundleInfo, OffloadDeviceObjectsInfo, OffloadImagesInfo],
    toolchains = use_cc_toolchain(),
)
