"""Module extension: device compilers and prebuilt programs.

```starlark
offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
use_repo(offload, "offload_system_clang")
register_toolchains("@offload_system_clang//:all")
```

The repositories `offload_system_clang` and `offload_native` are always there; Bazel fetches them when they are used. Tags ask for more, or for others under names of their own; only
those of the root module count. See docs/toolchains.md.
"""

load("//rules/private:clang_repositories.bzl", "archive_clang", "archive_clang_toolchain", "archive_rocm", "system_clang")
load("//rules/private:native.bzl", "native_repository")
load("//rules/private:prebuilt.bzl", "locked_program", "prebuilt_program", "prebuilt_program_toolchain")

_DEFAULT = "offload_system_clang"
_NATIVE = "offload_native"

_PLATFORM_ATTRS = {
    "cpu": attr.string(
        doc = "Where it runs, as a constraint of `@platforms//cpu`.",
        default = "x86_64",
        values = ["x86_64", "aarch64"],
    ),
    "os": attr.string(
        doc = "Where it runs, as a constraint of `@platforms//os`.",
        default = "linux",
    ),
}

_DOWNLOAD_ATTRS = {
    "sha256": attr.string(
        doc = "SHA-256 of the download, in hex. Leave it out once, and the failure says what it is.",
    ),
    "urls": attr.string_list(
        doc = "Where to download from; the first that answers is taken.",
        mandatory = True,
    ),
}

_FLAGS_ATTRS = {
    "compile_flags": attr.string_list(
        doc = "More flags of every device compilation, e.g. `-mcode-object-version=5` for device libraries before ROCm 6.3.",
    ),
    "link_flags": attr.string_list(
        doc = "More flags of every device link.",
    ),
}

_system_clang = tag_class(
    doc = """clang and lld of this machine. `@NAME//:all` is to register, `@NAME//:openmp_runtime` is the OpenMP runtime beside them; `@NAME//:hip`, `@NAME//:rocblas` and so on are the libraries of the machine's ROCm.

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
            doc = "The folder that holds `bin/clang`, e.g. `/opt/rocm/llvm`. If empty, the variable OFFLOAD_LLVM, then the usual places: ROCm's, then the newest release.",
        ),
        "rocm_path": attr.string(
            doc = "The folder that holds HIP's `include/hip`, e.g. `/opt/rocm`. If empty, the variable ROCM_PATH, then the usual places. `none` for not to look.",
        ),
    },
)

_archive_clang = tag_class(
    doc = """clang and lld from an archive, such as a release of LLVM. It is downloaded when something is compiled with it. `@NAME//:all` is to register, `@NAME//:openmp_runtime` is its OpenMP runtime.

```starlark
offload.archive_clang(
    name = "clang_22",
    sha256 = "…",
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
            doc = "The folder in the archive that holds `bin/clang`.",
        ),
        "type": attr.string(
            doc = "Type of the archive, if its name does not tell, e.g. `tar.xz`.",
        ),
    },
)

_archive_rocm = tag_class(
    doc = """ROCm from an archive that is laid out as `/opt/rocm` or as TheRock's distribution: clang and lld, device libraries, HIP and other libraries.

It is downloaded when something is compiled or linked with it. `@NAME//:all` is to register; `@NAME//:hip`, `@NAME//:rocblas` and so on
are its libraries; `@NAME//:openmp_runtime` is the OpenMP runtime of its LLVM.

```starlark
offload.archive_rocm(
    name = "rocm_7",
    sha256 = "…",
    urls = ["https://example.com/rocm-7.tar.xz"],
)
use_repo(offload, "rocm_7")
register_toolchains("@rocm_7//:all")
```
""",
    attrs = _DOWNLOAD_ATTRS | _PLATFORM_ATTRS | _FLAGS_ATTRS | {
        "name": attr.string(
            doc = "Name of the repository, and of the compiler in the setting `//rules/settings:device_compiler`. A library whose folder of headers " +
                  "these rules have never heard of is a target of `@NAME_files`, by the name of the folder; `use_repo` brings that in.",
            mandatory = True,
        ),
        "strip_prefix": attr.string(
            doc = "The folder in the archive that holds `include/hip` and `lib/llvm` or `llvm`.",
        ),
        "type": attr.string(
            doc = "Type of the archive, if its name does not tell, e.g. `tar.xz`.",
        ),
    },
)

_prebuilt = tag_class(
    doc = """The `offload` program as a file, instead of building it from source. `@NAME//:all` is to register.

Without `urls`, it is the program of this release, whose checksum the module has.

```starlark
offload.prebuilt(
    name = "offload_program",
    sha256 = "…",
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
            doc = "SHA-256 of the file in `urls`, in hex. Leave it out once, and the failure says what it is.",
        ),
        "urls": attr.string_list(
            doc = "Where to download from; the first that answers is taken. If empty, the program that was released with these rules.",
        ),
    },
)

def _files_of(tag):
    """The repository with what a tag downloads; the one that is named after it has the toolchain."""
    return tag.name + "_files"

def _archive(tag, archive, rocm = False):
    """The two repositories of a compiler from an archive."""
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
                fail("offload: two tags have the name {}: give each a name of its own".format(repr(tag.name)))
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
    doc = "Makes one repository with a toolchain for each tag, `offload_system_clang` for the clang and lld found on this machine, and `offload_native` for its GPUs.",
    tag_classes = {
        "archive_clang": _archive_clang,
        "archive_rocm": _archive_rocm,
        "prebuilt": _prebuilt,
        "system_clang": _system_clang,
    },
)
