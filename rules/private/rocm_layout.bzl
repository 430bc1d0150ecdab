"""Finds the contents of a ROCm directory, in repository rules, with the layout of /opt/rocm, TheRock's archives or Debian's packages."""

load(":elf.bzl", "read_dynamic")

# Directories of shared libraries: ROCm's own, and those that it includes.
_LIBRARY_FOLDERS = ["lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"]
_OTHER_LIBRARY_FOLDERS = ["lib/rocm_sysdeps/lib", "lib/llvm/lib", "llvm/lib"]

# Directories of LLVM in a ROCm directory.
LLVM_FOLDERS = ["lib/llvm", "llvm"]

_DEVICE_LIBRARIES = [
    "amdgcn/bitcode",
    "lib/llvm/amdgcn/bitcode",
    "llvm/amdgcn/bitcode",
    "lib/amdgcn/bitcode",
    "lib/x86_64-linux-gnu/amdgcn/bitcode",
    "share/amdgcn/bitcode",
    "lib/llvm/lib/clang/amdgcn/bitcode",
]

# The libraries whose targets always exist, so that an error message can report which are missing. Every other header
# directory in a ROCm directory also gets a target, except in /usr, which has headers of other software.
KNOWN_LIBRARIES = [
    "amd_comgr",
    "amd_smi",
    "composable_kernel",
    "half",
    "hip",
    "hip_headers",
    "hipblas",
    "hipblas-common",
    "hipblaslt",
    "hipcub",
    "hipdnn",
    "hipfft",
    "hiprand",
    "hiprtc",
    "hipsolver",
    "hipsparse",
    "hipsparselt",
    "hiptensor",
    "hsa",
    "migraphx",
    "miopen",
    "rccl",
    "rocalution",
    "rocblas",
    "rocdecode",
    "rocfft",
    "rocjpeg",
    "rocm_smi",
    "rocprim",
    "rocprofiler-sdk",
    "rocrand",
    "rocsolver",
    "rocsparse",
    "rocthrust",
    "roctracer",
    "rocwmma",
]

# Header directories whose library has another name.
_LIBRARY_OF_FOLDER = {"ck": "composable_kernel", "thrust": "rocthrust"}
_SHARED_LIBRARY_OF = {"hip": "amdhip64", "hsa": "hsa-runtime64"}

# Header directories of the compiler.
_COMPILER_FOLDERS = ["clang", "clang-c", "lld", "llvm", "llvm-c"]

# Shared libraries that others load by name, without an entry in their dynamic section.
_LOADED = {
    "libamdhip64.so": ["libamd_comgr.so"],
    "libhiprtc.so": ["libamd_comgr.so", "libhiprtc-builtins.so"],
}

# In /usr, the names of ROCm's shared libraries have these prefixes; others belong to the system.
_ROCM_PREFIXES = ["libMIOpen", "libamd", "libhip", "libhsa", "libmigraphx", "librccl", "libroc"]

def _children(path):
    return path.readdir() if path.exists and path.is_dir else []

def find_device_libraries(repository_ctx, root, first = []):
    """Finds the directory with the device libraries.

    Args:
      repository_ctx: the context of a repository rule.
      root: the ROCm directory.
      first: list of paths to check before those in the ROCm directory.

    Returns:
      its path, or None.
    """
    folders = first + [root + "/" + folder for folder in _DEVICE_LIBRARIES]

    # Debian installs them with a release of LLVM, newer releases of ROCm with its clang.
    llvms = [root + "/" + folder for folder in LLVM_FOLDERS]
    releases = [child.basename.removeprefix("llvm-") for child in _children(repository_ctx.path(root + "/lib")) if child.basename.startswith("llvm-")]
    llvms += ["{}/lib/llvm-{}".format(root, release) for release in reversed(sorted([int(release) for release in releases if release.isdigit()]))]
    for llvm in llvms:
        for child in _children(repository_ctx.path(llvm + "/lib/clang")):
            folders += ["{}/{}".format(child, folder) for folder in ["amdgcn/bitcode", "lib/amdgcn/bitcode"]]
    for folder in folders:
        if repository_ctx.path(folder + "/ockl.bc").exists:
            return folder
    return None

def find_version(repository_ctx, root):
    """Finds the file with the version of HIP.

    Args:
      repository_ctx: the context of a repository rule.
      root: the ROCm directory.

    Returns:
      its path, or None.
    """
    for place in ["share/hip/version", "bin/.hipVersion"]:
        path = repository_ctx.path(root + "/" + place)
        if path.exists:
            return path
    return None

def _header_folders(repository_ctx, root):
    """Returns the names of the header directories of ROCm's libraries."""
    names = [child.basename for child in _children(repository_ctx.path(root + "/include")) if child.is_dir and child.basename not in _COMPILER_FOLDERS]
    if root != "/usr":
        return sorted(names)
    known = KNOWN_LIBRARIES + _LIBRARY_OF_FOLDER.keys()

    # NVIDIA's Thrust uses the same directory.
    return sorted([name for name in names if name in known and (name != "thrust" or "rocprim" in names)])

def _included(repository_ctx, root, folder, folders):
    """Returns the directories whose headers are included by headers of a directory."""
    answer = repository_ctx.execute(["grep", "-rhoE", "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"][A-Za-z0-9_.-]+/", "{}/include/{}".format(root, folder)])
    found = {}
    for line in answer.stdout.splitlines():
        name = line.replace("\"", "<").rpartition("<")[2].removesuffix("/")
        if name != folder and name in folders:
            found[name] = True
    return sorted(found)

def _closure(name, edges):
    """Returns a name and all names that can be reached from it."""
    found = {name: True}
    queue = [name]
    for _ in range(len(edges) + 1):
        following = []
        for at in queue:
            for to in edges.get(at, []):
                if to not in found:
                    found[to] = True
                    following.append(to)
        queue = following
    return found.keys()

def _shared_libraries(repository_ctx, root):
    """Returns the shared libraries of a ROCm directory as a dict from base name to relative path, and the names of ROCm's own."""
    files, own = {}, []
    for folders in [_LIBRARY_FOLDERS, _OTHER_LIBRARY_FOLDERS]:
        for folder in folders:
            for child in _children(repository_ctx.path(root + "/" + folder)):
                name = child.basename
                if not name.startswith("lib") or ".so" not in name or name in files:
                    continue
                if root == "/usr" and not [prefix for prefix in _ROCM_PREFIXES if name.startswith(prefix)]:
                    continue
                files[name] = folder + "/" + name
                if folders == _LIBRARY_FOLDERS:
                    own.append(name)
    return files, sorted(own)

def _named(name, stem):
    return name == stem or name.startswith(stem + ".")

def _file_of(library, own):
    """Returns the file name of a library with the fewest parts, or None."""
    stem = _SHARED_LIBRARY_OF.get(library, library).lower()
    for wanted in [stem, stem + "64"]:
        names = [name for name in own if _named(name.lower(), "lib{}.so".format(wanted))]
        if names:
            return names[0]
    return None

def _loaded(soname, files):
    """Returns the names of the files that a shared library loads by name."""
    names = []
    for stem, loaded in _LOADED.items():
        if not _named(soname, stem):
            continue
        for other in loaded:
            names.extend([file for file in sorted(files) if _named(file, other)][:1])
    return names

def _required(repository_ctx, root, roots, files):
    """Returns the requirements of shared libraries: a dict from file name to a struct with file (path relative to the ROCm directory) and needed (list of file names)."""
    read, queue, entry = {}, roots, {}
    for _ in range(len(files) + 1):
        following = []
        for name in queue:
            if name in entry:
                continue
            dynamic = read_dynamic(repository_ctx, "{}/{}".format(root, files[name]))
            if not dynamic:
                entry[name] = None
                continue
            soname = dynamic.soname or name
            entry[name] = soname
            if soname in read:
                continue
            needed = dynamic.needed + _loaded(soname, files)
            read[soname] = struct(
                file = files.get(soname, files[name].rpartition("/")[0] + "/" + soname),
                needed = [other for other in needed if other in files],
                target = files[name],
            )
            following += read[soname].needed
        queue = following
    return read, entry

def _in_order(required, entry):
    """Sorts shared libraries so that each one follows those that it requires; omits some requirements of cycles."""
    order = {}
    for _ in range(2 * len(required)):
        ready = []
        for name, library in required.items():
            if name not in order and all([entry.get(other) in order or not entry.get(other) or entry.get(other) == name for other in library.needed]):
                ready.append(name)
        remaining = [name for name in required if name not in order]
        for name in ready or remaining[:1]:
            order[name] = sorted({entry[other]: True for other in required[name].needed if entry.get(other) in order})
    return order

def find_libraries(repository_ctx, root):
    """Finds the libraries of a ROCm directory.

    Args:
      repository_ctx: the context of a repository rule.
      root: the ROCm directory.

    Returns:
      a struct: libraries, a list of structs with name, headers (names of directories in include/), shared (the soname of
      its shared library, None if the library only has headers), hip (whether its headers include HIP's) and data
      (directories, relative to root); shared, a list of structs with name (the soname), file and target (paths relative
      to root: the name that programs look for, and an existing file) and deps (sonames).
    """
    folders = _header_folders(repository_ctx, root)
    edges = {folder: _included(repository_ctx, root, folder, folders) for folder in folders}
    files, own = _shared_libraries(repository_ctx, root)
    named = {_LIBRARY_OF_FOLDER.get(folder, folder): folder for folder in folders}
    roots = {name: _file_of(name, own) for name in named.keys() + ["hiprtc"]}
    required, entry = _required(repository_ctx, root, [file for file in roots.values() if file], files)
    libraries = []
    for name, file in roots.items():
        if name not in named and (not file or "hip" not in folders):
            continue
        headers = _closure(named.get(name, "hip"), edges)
        libraries.append(struct(
            data = _data_folders(repository_ctx, root, name),
            headers = headers,
            hip = "hip" in headers,
            name = name,
            shared = entry.get(file) if file else None,
        ))
    order = _in_order(required, entry)
    return struct(
        libraries = libraries,
        shared = [struct(deps = deps, file = required[name].file, name = name, target = required[name].target) for name, deps in order.items()],
    )

def _data_folders(repository_ctx, root, name):
    """Returns the directories with files that a library loads, such as rocBLAS's kernels and MIOpen's tuning data."""
    if name in ["hip", "hiprtc", "hsa"]:
        return []
    places = [folder + "/" + name for folder in _LIBRARY_FOLDERS] + ["share/{}/db".format(name)]
    return [place for place in places if repository_ctx.path(root + "/" + place).is_dir]
