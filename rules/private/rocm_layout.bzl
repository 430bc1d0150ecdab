"""Finds what is in a ROCm folder, in repository rules: laid out as /opt/rocm, as TheRock's archives, or as Debian's packages."""

load(":elf.bzl", "read_dynamic")

# Where shared libraries are: ROCm's own, and those that come with it.
_LIBRARY_FOLDERS = ["lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"]
_OTHER_LIBRARY_FOLDERS = ["lib/rocm_sysdeps/lib", "lib/llvm/lib", "llvm/lib"]

# Where LLVM is in a ROCm folder.
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

# The libraries that targets are made for by name, so that a message can say which of them are missing. Every other
# folder of headers in a ROCm folder gets a target as well; that of /usr has headers of everything.
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

# Folders of headers whose library has another name.
_LIBRARY_OF_FOLDER = {"ck": "composable_kernel", "thrust": "rocthrust"}
_SHARED_LIBRARY_OF = {"hip": "amdhip64", "hsa": "hsa-runtime64"}

# Folders of headers that are the compiler's.
_COMPILER_FOLDERS = ["clang", "clang-c", "lld", "llvm", "llvm-c"]

# Shared libraries that others load by name, and that their file does not say it requires.
_LOADED = {
    "libamdhip64.so": ["libamd_comgr.so"],
    "libhiprtc.so": ["libamd_comgr.so", "libhiprtc-builtins.so"],
}

# In /usr, the shared libraries that are ROCm's begin so; others are the system's.
_ROCM_PREFIXES = ["libMIOpen", "libamd", "libhip", "libhsa", "libmigraphx", "librccl", "libroc"]

def _children(path):
    return path.readdir() if path.exists and path.is_dir else []

def find_device_libraries(repository_ctx, root, first = []):
    """Finds the folder with the device libraries.

    Args:
      repository_ctx: the context of a repository rule.
      root: the ROCm folder.
      first: list of paths to look at before those in the ROCm folder.

    Returns:
      its path, or None.
    """
    folders = first + [root + "/" + folder for folder in _DEVICE_LIBRARIES]

    # Debian has them with a release of LLVM, newer ROCm with its clang.
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
    """Finds the file that says which HIP it is.

    Args:
      repository_ctx: the context of a repository rule.
      root: the ROCm folder.

    Returns:
      its path, or None.
    """
    for place in ["share/hip/version", "bin/.hipVersion"]:
        path = repository_ctx.path(root + "/" + place)
        if path.exists:
            return path
    return None

def _header_folders(repository_ctx, root):
    """The names of the folders of headers of ROCm's libraries."""
    names = [child.basename for child in _children(repository_ctx.path(root + "/include")) if child.is_dir and child.basename not in _COMPILER_FOLDERS]
    if root != "/usr":
        return sorted(names)
    known = KNOWN_LIBRARIES + _LIBRARY_OF_FOLDER.keys()

    # NVIDIA's Thrust has the same folder.
    return sorted([name for name in names if name in known and (name != "thrust" or "rocprim" in names)])

def _included(repository_ctx, root, folder, folders):
    """The folders whose headers those of a folder include."""
    answer = repository_ctx.execute(["grep", "-rhoE", "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"][A-Za-z0-9_.-]+/", "{}/include/{}".format(root, folder)])
    found = {}
    for line in answer.stdout.splitlines():
        name = line.replace("\"", "<").rpartition("<")[2].removesuffix("/")
        if name != folder and name in folders:
            found[name] = True
    return sorted(found)

def _closure(name, edges):
    """A name and whatever it leads to."""
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
    """The shared libraries of a ROCm folder: a dict from base name to path relative to it, and the names of ROCm's own."""
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
    """The name of the file of a library, or None: that with the fewest parts."""
    stem = _SHARED_LIBRARY_OF.get(library, library).lower()
    for wanted in [stem, stem + "64"]:
        names = [name for name in own if _named(name.lower(), "lib{}.so".format(wanted))]
        if names:
            return names[0]
    return None

def _loaded(soname, files):
    """The names of the files that a shared library loads by name."""
    names = []
    for stem, loaded in _LOADED.items():
        if not _named(soname, stem):
            continue
        for other in loaded:
            names.extend([file for file in sorted(files) if _named(file, other)][:1])
    return names

def _required(repository_ctx, root, roots, files):
    """What shared libraries require: a dict from file name to a struct with file (path relative to the ROCm folder) and needed (list of file names)."""
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
    """Shared libraries, each after those it requires; where they require each other, some of that is left out."""
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
    """Finds the libraries of a ROCm folder.

    Args:
      repository_ctx: the context of a repository rule.
      root: the ROCm folder.

    Returns:
      a struct: libraries, a list of structs with name, headers (names of folders in include/), shared (the soname of its
      shared library, None for headers alone), hip (whether its headers include HIP's) and data (folders, relative to
      root); shared, a list of structs with name (the soname), file and target (paths relative to root: the name that
      programs look for, and a file that is there) and deps (sonames).
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
    """The folders with files that a library loads, such as rocBLAS's kernels and MIOpen's tuning."""
    if name in ["hip", "hiprtc", "hsa"]:
        return []
    places = [folder + "/" + name for folder in _LIBRARY_FOLDERS] + ["share/{}/db".format(name)]
    return [place for place in places if repository_ctx.path(root + "/" + place).is_dir]
