"""Generates the BUILD file with the targets of the libraries of a ROCm directory, in repository rules."""

load(":directory_links.bzl", "link_directory")
load(":rocm_layout.bzl", "KNOWN_LIBRARIES", "find_libraries")

_LOAD = """
load("{rocm_library}", "rocm_library", "rocm_shared_library")
load("{rocm_libraries}", "rocm_libraries")
load("{missing}", "missing_library")
"""

_LIBRARIES = """
rocm_libraries(
    name = "rocm_libraries",
    libraries = {{":" + name: name for name in {names}}},
    visibility = ["//visibility:public"],
    where = {where},
)
"""

_HEADERS = """
filegroup(
    name = "include_{name}",
    srcs = glob(["rocm/include/{name}/**"]),
)
"""

_SHARED = """
rocm_shared_library(
    name = "shared_{name}",
    library = {file},
    deps = {deps},
)
"""

_LIBRARY = """
rocm_library(
    name = "{name}",
    data = glob({data}, allow_empty = True, exclude = ["**/*.cmake"]),
    defines = {defines},
    hdrs = {headers},
    include = "rocm/include",
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
    deps = {deps},
)
"""

_MISSING = """
[
    missing_library(
        name = name,
        message = {message}.format(name),
        visibility = ["//visibility:public"],
    )
    for name in {names}
]
"""

_MISSING_MESSAGE = "{{}} is not in {where}, which has {names}. Install it there, or use another ROCm: see docs/toolchains.md"

_NO_ROCM_MESSAGE = """{{}} is a part of ROCm, which was not found{where}.
Install it (Debian: apt-get install hipcc libamdhip64-dev), or name the directory that contains include/hip:
    --repo_env=ROCM_PATH=/path/to/rocm
or in MODULE.bazel: offload.system_clang(rocm_path = "/path/to/rocm"), or offload.archive_rocm(...) for a ROCm from an archive."""

# HIP's headers support AMD's and NVIDIA's GPUs; hipcc defines the macro that selects one.
_DEFINES = ["__HIP_PLATFORM_AMD__=1"]

def _missing(names, message):
    return _MISSING.format(message = repr(message), names = repr(names)) if names else ""

def no_rocm_targets(where):
    """Returns the targets without ROCm. Dependents fail with a message that explains what to do.

    Args:
      where: the location in the message, such as ` on this machine`.

    Returns:
      text of a BUILD file.
    """
    return _load() + _missing(KNOWN_LIBRARIES, _NO_ROCM_MESSAGE.format(where = where)) + _libraries([], "ROCm, which was not found" + where)

def _load():
    return _LOAD.format(
        missing = Label("//rules/private:missing.bzl"),
        rocm_libraries = Label("//rules/private:rocm_libraries.bzl"),
        rocm_library = Label("//rules/private:rocm_library.bzl"),
    )

def _libraries(names, where):
    return _LIBRARIES.format(names = repr(names), where = repr(where))

def rocm_targets(repository_ctx, root, link):
    """Returns the targets of the libraries of a ROCm directory.

    Args:
      repository_ctx: the context of a repository rule.
      root: the ROCm directory.
      link: whether to link it into the directory `rocm` of the repository; if false, it is that directory.

    Returns:
      a struct: build, text of a BUILD file; hip, the label of the target with HIP's runtime, None if there are only headers.
    """
    found = find_libraries(repository_ctx, root)
    if link:
        _link(repository_ctx, root, found)
    text = _load()
    for name in sorted({name: True for library in found.libraries for name in library.headers}):
        text += _HEADERS.format(name = name)
    for shared in found.shared:
        if not link and not repository_ctx.path("{}/{}".format(root, shared.file)).exists:
            # Programs look for it under this name.
            repository_ctx.symlink("{}/{}".format(root, shared.target), "rocm/" + shared.file)
        text += _SHARED.format(
            deps = repr(["shared_" + name for name in shared.deps]),
            file = repr("rocm/" + shared.file),
            name = shared.name,
        )
    runtime = [library.shared for library in found.libraries if library.name == "hip" and library.shared]

    # Programs that are installed without their runfiles also run on machines with this ROCm.
    folders = [shared.file.rpartition("/")[0] for shared in found.shared if shared.name in runtime]
    linkopts = ["-Wl,-rpath,{}/{}".format(root, folder) for folder in folders] if link and root != "/usr" else []
    for library in found.libraries:
        # Headers without a shared library call HIP's runtime if they include its headers.
        shared = {name: True for name in [library.shared] + (runtime if library.hip else []) if name}
        text += _library(library, library.name, shared.keys(), linkopts)
        if library.name == "hip":
            text += _library(library, "hip_headers", [], [])
    names = [library.name for library in found.libraries]
    absent = [name for name in KNOWN_LIBRARIES if name not in names + (["hip_headers"] if "hip" in names else [])]
    where = root if link else repository_ctx.attr.urls[0]
    text += _missing(absent, _MISSING_MESSAGE.format(names = ", ".join(sorted(names)).replace("{", "{{"), where = where))
    text += _libraries([name for name in KNOWN_LIBRARIES if name not in absent], where)
    return struct(build = text, hip = ":hip" if runtime else None)

def _library(library, name, shared, linkopts):
    return _LIBRARY.format(
        data = repr(["rocm/{}/**".format(folder) for folder in library.data]),
        defines = repr(_DEFINES if library.hip else []),
        deps = repr(["shared_" + soname for soname in shared]),
        headers = repr(["include_" + folder for folder in library.headers]),
        linkopts = repr(linkopts if shared else []),
        name = name,
    )

def _link(repository_ctx, root, found):
    for name in {name: True for library in found.libraries for name in library.headers}:
        link_directory(repository_ctx, "{}/include/{}".format(root, name), "rocm/include/" + name)
    for shared in found.shared:
        repository_ctx.symlink("{}/{}".format(root, shared.target), "rocm/" + shared.file)
    for library in found.libraries:
        for folder in library.data:
            link_directory(repository_ctx, "{}/{}".format(root, folder), "rocm/" + folder)
