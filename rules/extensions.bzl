"""Module extension: device compilers and prebuilt programs.

```starlark
offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
use_repo(offload, "offload_system_clang")
register_toolchains("@offload_system_clang//:all")
```

The repositories `offload_system_clang` and `offload_native` always exist; Bazel fetches them when they are used. Tags
declare additional repositories, or replace `offload_system_clang`. Only tags of the root module are used. See
[Toolchains](../toolchains.md).
"""

load("//rules/private:clang_repositories.bzl", "archive_clang", "archive_clang_toolchain", "archive_rocm", "system_clang")
load("//rules/private:native.bzl", "native_repository")
load("//rules/private:prebuilt.bzl", "locked_program", "prebuilt_program", "prebuilt_program_toolchain")

_DEFAULT = "offload_system_clang"
_NATIVE = "offload_native"

_PLATFORM_ATTRS = {
    "cpu": attr.string(
        doc = "CPU of the execution platform, as a constraint of `@platforms//cpu`.",
        default = "x86_64",
        values = ["x86_64", "aarch64"],
    ),
    "os": attr.string(
        doc = "Operating system of the execution platform, as a constraint of `@platforms//os`.",
        default = "linux",
    ),
}

_DOWNLOAD_ATTRS = {
    "sha256": attr.string(
        doc = "SHA-256 of the download, in hex. If it is not set, the fetch fails and the error message shows the value.",
    ),
    "urls": attr.string_list(
        doc = "URLs to download from. The first one that responds is used.",
        mandatory = True,
    ),
}

_FLAGS_ATTRS = {
    "compile_flags": attr.string_list(
        doc = "Additional flags for every device compilation, e.g. `-mcode-object-version=5` for device libraries before ROCm 6.3.",
    ),
    "link_flags": attr.string_list(
        doc = "Additional flags for every device link.",
    ),
}

_system_clang = tag_class(
    doc = """Uses clang and lld of this machine.

Register `@NAME//:all`. `@NAME//:openmp_runtime` is the OpenMP runtime of the same LLVM. `@NAME//:hip`, `@NAME//:rocblas`
and so on are the libraries of the ROCm on this machine.

```starlark
offload.system_clang(path = "/sw/llvm", rocm_path = "/opt/rocm")
```
""",
    attrs = _FLAGS_ATTRS | {
        "name": attr.string(
            doc = "Name of the repository, and of the compiler in the setting `//rules/settings:device_compiler`.",
            default = _DEFAULT,
        ),
        "path": attr.string(
            doc = "The directory that contains `bin/clang`, e.g. `/opt/rocm/llvm`. If empty, the environment variable OFFLOAD_LLVM, or else the usual locations: ROCm, then the newest release of LLVM.",
        ),
        "rocm_path": attr.string(
            doc = "The directory that contains HIP's `include/hip`, e.g. `/opt/rocm`. If empty, the environment variable ROCM_PATH, or else the usual locations. `none` disables the search.",
        ),
    },
)

_archive_clang = tag_class(
    doc = """Uses clang and lld from an archive, such as a release of LLVM.

Bazel downloads the archive when an action uses the compiler. Register `@NAME//:all`. `@NAME//:openmp_runtime` is the
OpenMP runtime in the archive.

```starlark
offload.archive_clang(
    name = "clang_22",
    sha256 = "...",
    strip_prefix = "LLVM-22.1.0-Linux-X64",
    urls = ["https://example.com/LLVM-22.1.0-Linux-X64.tar.xz"],
)
use_repo(offload, "clang_22")
register_toolchains("@clang_22//:all")
```
""",
    attrs = _DOWNLOAD_ATTRS | _PLATFORM_ATTRS | _FLAGS_ATTRS | {
        "name": attr.string(
            doc = "Name of the repository, and of the compiler in the setting `//rules/settings:device_compiler`.",
            mandatory = True,
        ),
        "strip_prefix": attr.string(
            doc = "The directory in the archive that contains `bin/clang`.",
        ),
        "type": attr.string(
            doc = "Type of the archive, e.g. `tar.xz`. Required only if the URL does not end with the type.",
        ),
    },
)

_archive_rocm = tag_class(
    doc = """Uses ROCm from an archive: clang and lld, device libraries, HIP and other libraries.

The archive has the layout of `/opt/rocm` or of TheRock's distribution. Bazel downloads it when an action uses the compiler
or a library. Register `@NAME//:all`. `@NAME//:hip`, `@NAME//:rocblas` and so on are the libraries in the archive.
`@NAME//:openmp_runtime` is the OpenMP runtime of its LLVM.

```starlark
offload.archive_rocm(
    name = "rocm_7",
    sha256 = "...",
    urls = ["https://example.com/rocm-7.tar.xz"],
)
use_repo(offload, "rocm_7")
register_toolchains("@rocm_7//:all")
```
""",
    attrs = _DOWNLOAD_ATTRS | _PLATFORM_ATTRS | _FLAGS_ATTRS | {
        "name": attr.string(
            doc = "Name of the repository, and of the compiler in the setting `//rules/settings:device_compiler`. If these rules " +
                  "do not know the header directory of a library, its target is in `@NAME_files` and has the name of the directory; add that repository to `use_repo`.",
            mandatory = True,
        ),
        "strip_prefix": attr.string(
            doc = "The directory in the archive that contains `include/hip` and `lib/llvm` or `llvm`.",
        ),
        "type": attr.string(
            doc = "Type of the archive, e.g. `tar.xz`. Required only if the URL does not end with the type.",
        ),
    },
)

_prebuilt = tag_class(
    doc = """Uses a prebuilt `offload` program instead of building it from source. Register `@NAME//:all`.

Without `urls`, the program of this release is used. The module contains its checksum.

```starlark
offload.prebuilt(
    name = "offload_program",
    sha256 = "...",
    urls = ["https://example.com/offload-linux-x86_64"],
)
use_repo(offload, "offload_program")
register_toolchains("@offload_program//:all")
```
""",
    attrs = _PLATFORM_ATTRS | {
        "name": attr.string(
            doc = "Name of the repository.",
            mandatory = True,
        ),
        "sha256": attr.string(
            doc = "SHA-256 of the file in `urls`, in hex. If it is not set, the fetch fails and the error message shows the value.",
        ),
        "urls": attr.string_list(
            doc = "URLs to download from. The first one that responds is used. If empty, the program that was released with these rules.",
        ),
    },
)

def _files_of(tag):
    """Returns the name of the repository with the download of a tag; the repository named after the tag has the toolchain."""
    return tag.name + "_files"

def _archive(tag, archive, rocm = False):
    """Declares the two repositories of a compiler from an archive."""
    archive_clang_toolchain(
        name = tag.name,
        compiler_name = tag.name,
        cpu = tag.cpu,
        files = _files_of(tag),
        os = tag.os,
        rocm = rocm,
    )
    archive(
        name = _files_of(tag),
        compile_flags = tag.compile_flags,
        link_flags = tag.link_flags,
        sha256 = tag.sha256,
        strip_prefix = tag.strip_prefix,
        type = tag.type,
        urls = tag.urls,
    )

def _offload_impl(module_ctx):
    names = {_NATIVE: True}
    for module in module_ctx.modules:
        if not module.is_root:
            continue
        for tag in module.tags.system_clang + module.tags.archive_clang + module.tags.archive_rocm + module.tags.prebuilt:
            if tag.name in names:
                fail("offload: two tags have the name {}: give each tag a different name".format(repr(tag.name)))
            names[tag.name] = True
        for tag in module.tags.system_clang:
            system_clang(
                name = tag.name,
                compile_flags = tag.compile_flags,
                compiler_name = tag.name,
                link_flags = tag.link_flags,
                path = tag.path,
                rocm_path = tag.rocm_path,
            )
        for tag in module.tags.archive_clang:
            _archive(tag, archive_clang)
        for tag in module.tags.archive_rocm:
            _archive(tag, archive_rocm, rocm = True)
        for tag in module.tags.prebuilt:
            prebuilt_program_toolchain(
                name = tag.name,
                cpu = tag.cpu,
                files = _files_of(tag),
                os = tag.os,
            )
            program = locked_program(tag)
            prebuilt_program(
                name = _files_of(tag),
                sha256 = program.sha256,
                urls = program.urls,
            )
    native_repository(name = _NATIVE)
    if _DEFAULT not in names:
        system_clang(name = _DEFAULT, compiler_name = _DEFAULT)
    return module_ctx.extension_metadata(reproducible = True)

offload = module_extension(
    implementation = _offload_impl,
    doc = "Creates a repository with a toolchain for each tag, `offload_system_clang` for the clang and lld found on this machine, and `offload_native` for the GPUs of this machine.",
    tag_classes = {
        "archive_clang": _archive_clang,
        "archive_rocm": _archive_rocm,
        "prebuilt": _prebuilt,
        "system_clang": _system_clang,
    },
)
