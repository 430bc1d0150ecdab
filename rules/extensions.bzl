"""Module extension: device compilers and the `offload` program.

```starlark
offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
use_repo(offload, "offload_system_clang")
register_toolchains("@offload_system_clang//:all")
```

The repositories `offload_system_clang`, `offload_programs` and `offload_native` always exist; Bazel fetches them when they
are used. Tags declare additional repositories, or replace `offload_system_clang`. `bazel mod tidy` writes the call of `use_repo`. See
[Toolchains](../toolchains.md).

A module that others depend on can also have tags. If several modules declare the same name, the tag of the root module is used
for all of them; without one, the tags must be equal. `from_source` and a tag for `offload_system_clang` only have an effect in the
root module.
"""

load("//rules/private:bazel_version.bzl", "bazel_version")
load("//rules/private:clang_repositories.bzl", "archive_clang", "archive_rocm", "compiler_toolchains", "system_clang")
load("//rules/private:download.bzl", "ARCHIVE_ATTRS", "DOWNLOAD_ATTRS")
load("//rules/private:native.bzl", "native_repository")
load("//rules/private:platforms.bzl", "platform_name", "repository_of")
load("//rules/private:programs.bzl", "SOURCE_PLATFORMS", "built_program", "prebuilt_program", "program_toolchains", "released_program")
load("//rules/private:release.bzl", "PROGRAMS")

_BAZEL = "offload_bazel"
_DEFAULT = "offload_system_clang"
_NATIVE = "offload_native"
_PROGRAM = "offload_program"
_PROGRAMS = "offload_programs"

# The attributes of a tag with a download for one execution platform, or for several.
_PLATFORM_ATTRS = {
    "checksums": attr.string_dict(
        doc = "With `platforms`: SHA-256 in hex, or integrity, of each download.",
    ),
    "cpu": attr.string(
        doc = "CPU of the execution platform, as a constraint of `@platforms//cpu`.",
        default = "x86_64",
    ),
    "os": attr.string(
        doc = "Operating system of the execution platform, as a constraint of `@platforms//os`.",
        default = "linux",
    ),
    "platforms": attr.string_list_dict(
        doc = "Instead of `urls`, `os` and `cpu`, for several execution platforms: from `OS-CPU`, such as `linux-aarch64`, to URLs. Bazel downloads the file of a platform only if an action on that platform uses it.",
    ),
}

_STRIP_PREFIXES = {
    "strip_prefixes": attr.string_dict(
        doc = "With `platforms`: values of `strip_prefix` that differ.",
    ),
}

_FLAGS_ATTRS = {
    "compile_flags": attr.string_list(
        doc = "Additional flags for every device compilation, e.g. `-mcode-object-version=5` for device libraries before ROCm 6.3.",
    ),
    "facts": attr.string_dict(
        doc = "What the compiler does, instead of what its driver answers: see [Facts](../toolchains.md#facts-about-the-compiler).",
    ),
    "host_compile_flags": attr.string_list(
        doc = "Additional flags for every compilation of host code by this clang, before those of the C++ toolchain.",
    ),
    "host_link_flags": attr.string_list(
        doc = "Additional flags for the link of every program with host code that this clang compiled.",
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
    attrs = ARCHIVE_ATTRS | _PLATFORM_ATTRS | _STRIP_PREFIXES | _FLAGS_ATTRS | {
        "name": attr.string(
            doc = "Name of the repository, and of the compiler in the setting `//rules/settings:device_compiler`.",
            mandatory = True,
        ),
        "strip_prefix": attr.string(
            doc = "The directory in the archive that contains `bin/clang`.",
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
    attrs = ARCHIVE_ATTRS | _PLATFORM_ATTRS | _STRIP_PREFIXES | _FLAGS_ATTRS | {
        "libraries": attr.string_list(
            doc = "Header directories in the archive that these rules do not know, such as those of newer libraries: each is a target `@NAME//:DIRECTORY`.",
        ),
        "name": attr.string(
            doc = "Name of the repository, and of the compiler in the setting `//rules/settings:device_compiler`.",
            mandatory = True,
        ),
        "strip_prefix": attr.string(
            doc = "The directory in the archive that contains `include/hip` and `lib/llvm` or `llvm`.",
        ),
    },
)

_overlay = tag_class(
    doc = """Extracts another archive over the one of a tag `archive_rocm`, for a ROCm that comes in several packages.

Later tags replace files of earlier ones.

```starlark
offload.archive_rocm(
    name = "rocm_7",
    sha256 = "...",
    strip_prefix = "_rocm_sdk_core",
    type = "zip",
    urls = ["https://example.com/rocm_sdk_core-7-py3-none-linux_x86_64.whl"],
)
offload.overlay(
    name = "rocm_7",
    sha256 = "...",
    strip_prefix = "_rocm_sdk_devel",
    type = "zip",
    urls = ["https://example.com/rocm_sdk_devel-7-py3-none-linux_x86_64.whl"],
)
```
""",
    attrs = {name: attribute for name, attribute in ARCHIVE_ATTRS.items() if name not in ["auth_patterns", "netrc"]} | {
        "directory": attr.string(
            doc = "The directory of ROCm to extract to, such as `lib/llvm`; ROCm's own by default.",
        ),
        "name": attr.string(
            doc = "Name of the tag `archive_rocm`. Its `netrc` and `auth_patterns` apply.",
            mandatory = True,
        ),
        "platform": attr.string(
            doc = "The only platform, `OS-CPU`, that the archive is for; all platforms by default.",
        ),
    },
)

_prebuilt = tag_class(
    doc = """Uses a prebuilt `offload` program other than the one of this release. Register `@NAME//:all`.

Without `urls` and `platforms`, the program of this release is used. The module contains its checksum.

```starlark
offload.prebuilt(
    name = "my_offload",
    sha256 = "...",
    urls = ["https://example.com/offload-linux-x86_64"],
)
use_repo(offload, "my_offload")
register_toolchains("@my_offload//:all")
```
""",
    attrs = DOWNLOAD_ATTRS | _PLATFORM_ATTRS | {
        "name": attr.string(
            doc = "Name of the repository.",
            mandatory = True,
        ),
    },
)

_from_source = tag_class(
    doc = """Builds the `offload` program from source instead of downloading the one of this release.

Go builds it once for each execution platform, when an action uses it. Without a release, as in a checkout, this is the
default.

```starlark
offload.from_source()
```
""",
    attrs = {
        "go": attr.label(
            doc = "The `go` program, such as `@my_sdk//:bin/go`. By default, the one on `PATH`, which downloads the release of Go in go.mod if it is older.",
        ),
    },
)

def _downloads(tag, kind):
    """Returns the downloads of a tag: a dict from `OS-CPU` to a struct with urls, sha256, integrity and strip_prefix."""
    prefix = getattr(tag, "strip_prefix", "")
    if not tag.platforms:
        if not tag.urls:
            fail("offload.{}: {} has no urls: set urls, or platforms for several execution platforms".format(kind, repr(tag.name)))
        return {platform_name(tag.os, tag.cpu): struct(integrity = tag.integrity, sha256 = tag.sha256, strip_prefix = prefix, urls = tag.urls)}
    if tag.urls or tag.sha256 or tag.integrity:
        fail("offload.{}: {} has platforms, and urls or a checksum of one download: set platforms and checksums, or urls and sha256".format(kind, repr(tag.name)))
    prefixes = getattr(tag, "strip_prefixes", {})
    for platform in tag.checksums.keys() + prefixes.keys():
        if platform not in tag.platforms:
            fail("offload.{}: {}: {} is not in platforms: found {}".format(kind, repr(tag.name), repr(platform), ", ".join(tag.platforms)))
    downloads = {}
    for platform, urls in tag.platforms.items():
        checksum = tag.checksums.get(platform, "")
        in_hex = "-" not in checksum
        downloads[platform] = struct(
            integrity = "" if in_hex else checksum,
            sha256 = checksum if in_hex else "",
            strip_prefix = prefixes.get(platform, prefix),
            urls = urls,
        )
    return downloads

def _files_of(tag, downloads):
    """Returns the repositories with the downloads of a tag, by platform; the repository named after the tag has the toolchains."""
    if len(downloads) == 1:
        return {platform: tag.name + "_files" for platform in downloads}
    return {platform: repository_of(tag.name, platform) for platform in downloads}

def _archive(tag, kind, rule, **kwargs):
    """Declares the repositories of a compiler from an archive."""
    downloads = _downloads(tag, kind)
    files = _files_of(tag, downloads)
    compiler_toolchains(
        name = tag.name,
        compiler_name = tag.name,
        files = files,
        libraries = getattr(tag, "libraries", []),
        rocm = kind == "archive_rocm",
    )
    for platform, download in downloads.items():
        rule(
            name = files[platform],
            auth_patterns = tag.auth_patterns,
            compile_flags = tag.compile_flags,
            facts = tag.facts,
            host_compile_flags = tag.host_compile_flags,
            host_link_flags = tag.host_link_flags,
            integrity = download.integrity,
            link_flags = tag.link_flags,
            netrc = tag.netrc,
            sha256 = download.sha256,
            strip_prefix = download.strip_prefix,
            type = tag.type,
            urls = download.urls,
            **{name: value[platform] for name, value in kwargs.items()}
        )

def _rocm(tag, overlays):
    platforms = tag.platforms or [platform_name(tag.os, tag.cpu)]
    for overlay in overlays:
        if overlay.platform and overlay.platform not in platforms:
            fail("offload.overlay: {}: the tag archive_rocm is not for {}, but for {}".format(repr(tag.name), overlay.platform, ", ".join(platforms)))
        if not overlay.urls:
            fail("offload.overlay: {} has no urls".format(repr(tag.name)))
    _archive(tag, "archive_rocm", archive_rocm, overlays = {
        platform: [
            json.encode(struct(
                directory = overlay.directory,
                integrity = overlay.integrity,
                sha256 = overlay.sha256,
                strip_prefix = overlay.strip_prefix,
                type = overlay.type,
                urls = overlay.urls,
            ))
            for overlay in overlays
            if overlay.platform in ["", platform]
        ]
        for platform in platforms
    })

def _prebuilt_program(tag):
    if tag.urls or tag.platforms:
        downloads = _downloads(tag, "prebuilt")
    else:
        platform = platform_name(tag.os, tag.cpu)
        program = released_program("offload.prebuilt", platform, tag.name)
        if tag.sha256 or tag.integrity:
            fail("offload.prebuilt: {} has a checksum without urls: set both, or neither for the program of this release".format(repr(tag.name)))
        downloads = {platform: struct(integrity = "", sha256 = program.sha256, urls = program.urls)}
    files = _files_of(tag, downloads)
    program_toolchains(name = tag.name, programs = files)
    for platform, download in downloads.items():
        prebuilt_program(
            name = files[platform],
            auth_patterns = tag.auth_patterns,
            integrity = download.integrity,
            netrc = tag.netrc,
            sha256 = download.sha256,
            urls = download.urls,
        )

def _default_programs(from_source):
    """Declares the repositories with the program of these rules: downloads of the release, or built from source.

    A platform for which the release has no program gets it from source.
    """
    if len(from_source) > 1:
        fail("offload.from_source: found {} tags, expected one".format(len(from_source)))
    released = {} if from_source else PROGRAMS
    platforms = (SOURCE_PLATFORMS | released).keys()
    program_toolchains(name = _PROGRAMS, programs = {platform: repository_of(_PROGRAM, platform) for platform in platforms})
    for platform in platforms:
        name = repository_of(_PROGRAM, platform)
        if platform in released:
            program = released_program("offload.prebuilt", platform, name)
            prebuilt_program(name = name, sha256 = program.sha256, urls = program.urls)
        else:
            built_program(name = name, go = from_source[0].go if from_source else None, platform = platform)

# The kinds of tags that declare repositories.
_KINDS = ["system_clang", "archive_clang", "archive_rocm", "prebuilt"]

# The kinds with a compiler.
_COMPILERS = _KINDS[:-1]

def _values(tag):
    return {name: getattr(tag, name) for name in dir(tag)}

def _declared(module):
    """Returns the tags of a module that declare repositories.

    Args:
      module: a `bazel_module`.

    Returns:
      dict from the name of the repository to a struct: kind; tag; overlays, a list of tags; module; values, of all its attributes and overlays, to compare.
    """
    declared = {}
    rocms = [tag.name for tag in module.tags.archive_rocm]
    for overlay in module.tags.overlay:
        if overlay.name not in rocms:
            fail("offload.overlay: {} is not the name of a tag archive_rocm: expected {}".format(repr(overlay.name), " or ".join([repr(name) for name in rocms]) or "such a tag in the same MODULE.bazel"))
    for kind in _KINDS:
        for tag in getattr(module.tags, kind):
            if tag.name in declared or tag.name in [_BAZEL, _NATIVE, _PROGRAMS]:
                fail("offload: {} have the name {}: give each tag a different name".format("two tags" if tag.name in declared else "the extension and a tag", repr(tag.name)))
            overlays = [overlay for overlay in module.tags.overlay if kind == "archive_rocm" and overlay.name == tag.name]
            declared[tag.name] = struct(
                kind = kind,
                module = "{}@{}".format(module.name, module.version) if module.version else module.name,
                overlays = overlays,
                tag = tag,
                values = [kind, _values(tag)] + [_values(overlay) for overlay in overlays],
            )
    return declared

def _difference(one, other):
    """Returns what differs between two tags."""
    if one.kind != other.kind:
        return one.kind + " and " + other.kind
    mine, theirs = one.values[1], other.values[1]
    return ", ".join([name for name in mine if mine[name] != theirs[name]] or ["overlays"])

def _resolve(modules):
    """Returns the tags to use of all modules, by name, as `_declared` does. The root module decides about a name that it declares."""
    chosen = {}
    decided = {}
    for module in modules:
        for name, declared in _declared(module).items():
            if module.is_root:
                decided[name] = declared
            elif name == _DEFAULT or name in decided:
                # The compiler of the machine is the choice of the root module.
                continue
            elif name in chosen and chosen[name].values != declared.values:
                fail("offload.{kind}: the modules {one} and {other} declare {name} differently ({what}): declare it in the root module, whose tag is then used for both: offload.{kind}(name = {name}, ...)".format(
                    kind = declared.kind,
                    name = repr(name),
                    one = chosen[name].module,
                    other = declared.module,
                    what = _difference(chosen[name], declared),
                ))
            elif name not in chosen:
                chosen[name] = declared
    return chosen | decided

def _root_deps(module_ctx):
    """Returns the repositories that the root module should import: those of its tags, or else the compiler of the machine.

    Args:
      module_ctx: the context of the extension.

    Returns:
      two lists of names: of its dependencies, and of those for its development only.
    """
    deps = []
    dev_deps = []
    for root in [module for module in module_ctx.modules if module.is_root]:
        if root.name == "rules_offload":
            # As a dependency, it needs the others; the toolchain is for its own tests.
            return [_BAZEL, _NATIVE, _PROGRAMS], [_DEFAULT]
        compilers = [tag for kind in _COMPILERS for tag in getattr(root.tags, kind)]
        for tag in compilers + root.tags.prebuilt:
            (dev_deps if module_ctx.is_dev_dependency(tag) else deps).append(tag.name)
        if not compilers:
            (deps if module_ctx.root_module_has_non_dev_dependency else dev_deps).append(_DEFAULT)
    return deps, dev_deps

def _offload_impl(module_ctx):
    tags = _resolve(module_ctx.modules)
    for declared in tags.values():
        tag = declared.tag
        if declared.kind == "system_clang":
            system_clang(
                name = tag.name,
                compile_flags = tag.compile_flags,
                compiler_name = tag.name,
                facts = tag.facts,
                host_compile_flags = tag.host_compile_flags,
                host_link_flags = tag.host_link_flags,
                link_flags = tag.link_flags,
                path = tag.path,
                rocm_path = tag.rocm_path,
            )
        elif declared.kind == "archive_clang":
            _archive(tag, "archive_clang", archive_clang)
        elif declared.kind == "archive_rocm":
            _rocm(tag, declared.overlays)
        else:
            _prebuilt_program(tag)
    _default_programs([tag for module in module_ctx.modules if module.is_root for tag in module.tags.from_source])
    bazel_version(name = _BAZEL)
    native_repository(name = _NATIVE)
    if _DEFAULT not in tags:
        system_clang(name = _DEFAULT, compiler_name = _DEFAULT)
    deps, dev_deps = _root_deps(module_ctx)
    return module_ctx.extension_metadata(
        reproducible = True,
        root_module_direct_deps = deps,
        root_module_direct_dev_deps = dev_deps,
    )

offload = module_extension(
    implementation = _offload_impl,
    doc = "Creates a repository with toolchains for each tag, `offload_system_clang` for the clang and lld found on this machine, `offload_programs` for the `offload` program, and `offload_native` for the GPUs of this machine.",
    tag_classes = {
        "archive_clang": _archive_clang,
        "archive_rocm": _archive_rocm,
        "from_source": _from_source,
        "overlay": _overlay,
        "prebuilt": _prebuilt,
        "system_clang": _system_clang,
    },
)
