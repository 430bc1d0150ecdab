"""Repositories with a clang and lld as a device toolchain: those of the system, or from an archive."""

load(":download.bzl", "PLATFORM_ATTRS", "constraints_of", "download_attrs", "download_checked", "platform_constraints")
load(":messages.bzl", "flag_of")

_RELEASES = [str(release) for release in range(30, 16, -1)]

# What a repository with a compiler holds.
_COMPILER = """load("{toolchains}", "offload_device_toolchain")

offload_device_toolchain(
    name = "clang",
    clang = {clang},
    compile_flags = {compile_flags},
    files = glob([{files}], allow_empty = True),
    link_flags = {link_flags},
    missing = {missing},
    release = {release},
    rocm_files = glob(["rocm/include/**", "rocm/amdgcn/**"], allow_empty = True),
    rocm_version = {rocm_version},
    visibility = ["//visibility:public"],
)
"""

# What a repository holds that is registered.
_TOOLCHAIN = """
load("{device_toolchain}", "chosen_by_name")

chosen_by_name(
    name = "clang",
    compiler = "{compiler}",
    compiler_name = {compiler_name},
    exec_compatible_with = {constraints},
)
"""

# The runtime of OpenMP offloading of the same LLVM.
_OPENMP = """
load("{cc_defs}", "cc_import", "cc_library")

[
    cc_import(
        name = library,
        shared_library = "runtime/" + library,
    )
    for library in {libraries}
]

cc_library(
    name = "openmp_runtime",
    deps = {libraries},
    visibility = ["//visibility:public"],
)
"""

_NO_OPENMP = """
load("{missing}", "missing_library")

missing_library(
    name = "openmp_runtime",
    message = {message},
    visibility = ["//visibility:public"],
)
"""

_NO_OPENMP_MESSAGE = """no runtime of OpenMP offloading (libomptarget.so, libomp.so) was found{where}.
Install it (Debian: apt-get install libomp-22-dev liboffload-22-dev, of the release of clang), or have the setting name a library of yours:
    {flag}=//my:runtime"""

# Outputs hold no path of the machine or sandbox.
_COMPILE_FLAGS = ["-no-canonical-prefixes", "-ffile-compilation-dir=."]
_LINK_FLAGS = ["-no-canonical-prefixes"]

def _compiler(repository_ctx, clang, files, missing = "", release = 0, rocm = False):
    return _COMPILER.format(
        clang = repr(clang),
        compile_flags = repr(_COMPILE_FLAGS + repository_ctx.attr.compile_flags),
        files = ", ".join([repr(pattern) for pattern in files]),
        link_flags = repr(_LINK_FLAGS + repository_ctx.attr.link_flags),
        missing = repr(missing),
        release = release,
        rocm_version = repr("rocm/share/hip/version" if rocm else None),
        toolchains = Label("//rules:toolchains.bzl"),
    )

def _toolchain(compiler, compiler_name, constraints):
    return _TOOLCHAIN.format(
        compiler = compiler,
        compiler_name = repr(compiler_name),
        constraints = repr(constraints),
        device_toolchain = Label("//rules/private:device_toolchain.bzl"),
    )

def _openmp(libraries, where):
    if libraries:
        return _OPENMP.format(
            cc_defs = Label("@rules_cc//cc:defs.bzl"),
            libraries = repr(libraries),
        )
    return _NO_OPENMP.format(
        message = repr(_NO_OPENMP_MESSAGE.format(
            flag = flag_of(Label("//rules/settings:openmp_runtime")),
            where = where,
        )),
        missing = Label("//rules/private:missing.bzl"),
    )

_CPUS = {
    "aarch64": "aarch64",
    "amd64": "x86_64",
    "arm64": "aarch64",
    "x86_64": "x86_64",
}

def _host_constraints(repository_ctx):
    cpu = _CPUS.get(repository_ctx.os.arch)
    return constraints_of("linux", cpu) if repository_ctx.os.name.lower() == "linux" and cpu else []

# The system's compiler.

def _candidates(repository_ctx):
    if repository_ctx.attr.path:
        return [repository_ctx.attr.path]
    from_environment = repository_ctx.getenv("OFFLOAD_LLVM")
    if from_environment:
        return [from_environment]
    return ["/opt/rocm/lib/llvm", "/opt/rocm/llvm"] + ["/usr/lib/llvm-" + release for release in _RELEASES] + ["/usr/lib64/llvm" + release for release in _RELEASES] + ["/usr"]

def _find(repository_ctx):
    """The first LLVM folder with a clang, an lld and the AMDGPU target, and why others are not it."""
    rejected = []
    candidates = _candidates(repository_ctx)
    for root in candidates:
        clang = repository_ctx.path(root).get_child("bin").get_child("clang")
        if not clang.exists:
            if len(candidates) == 1:
                rejected.append("{} does not exist".format(clang))
            continue
        if not repository_ctx.path(root).get_child("bin").get_child("ld.lld").exists:
            rejected.append("{} has no bin/ld.lld".format(root))
            continue
        answer = repository_ctx.execute([clang, "--print-targets"])
        if answer.return_code != 0 or "amdgcn" not in answer.stdout:
            rejected.append("{} has no AMDGPU target".format(clang))
            continue
        major = _major(repository_ctx, clang)
        if major and major < _MINIMUM:
            rejected.append("{} is release {}, {} is the oldest that works".format(clang, major, _MINIMUM))
            continue
        return root, rejected
    return None, rejected

_MISSING = """no clang with the AMDGPU target and lld was found on this machine{why}.
Install them (Debian: apt-get install clang-22 lld-22; Fedora: dnf install clang lld), or name the folder that holds bin/clang:
    --repo_env=OFFLOAD_LLVM=/path/to/llvm
or in MODULE.bazel: offload.system_clang(path = "/path/to/llvm"), or offload.archive_clang(...) for one from an archive."""

# What links code that is no object, where it is there: SPIR-V (Debian: llvm-22), PTX (clang-tools-22).
_OTHER_LINKERS = ["llvm-link", "clang-nvlink-wrapper"]

def _link_llvm(repository_ctx, root, resources):
    """Links what clang needs beside itself, under the paths that it looks at."""
    for name in ["clang", "ld.lld"] + _OTHER_LINKERS:
        program = repository_ctx.path("{}/bin/{}".format(root, name))
        if program.exists:
            repository_ctx.symlink(program, "bin/" + name)
    repository_ctx.symlink(resources + "/include", "lib/clang/{}/include".format(repository_ctx.path(resources).basename))

    # Programs of an LLVM with shared libraries look for them beside themselves,
    # also on a remote machine that has no LLVM.
    libraries = repository_ctx.path(root).get_child("lib")
    if root == "/usr" or not libraries.exists:
        return
    for library in libraries.readdir():
        if not library.basename.startswith("libclang-cpp.so"):
            continue
        version = library.basename.removeprefix("libclang-cpp")
        repository_ctx.symlink(library, "lib/" + library.basename)
        for folder in [libraries, library.realpath.dirname]:
            llvm = folder.get_child("libLLVM" + version)
            if llvm.exists:
                repository_ctx.symlink(llvm, "lib/libLLVM" + version)
                break

def _link_openmp(repository_ctx, root):
    """Links the runtime of OpenMP offloading under the names that programs look for; returns these, or none if a part lacks."""
    names = []
    libraries = repository_ctx.path(root).get_child("lib")
    if not libraries.exists:
        return []
    for folder in [libraries] + [child for child in libraries.readdir() if child.basename.endswith("-linux-gnu")]:
        for library in folder.readdir():
            name = library.basename
            if name.startswith("libomptarget.so.") or name.startswith("libomp.so."):
                if name not in names:
                    repository_ctx.symlink(library, "runtime/" + name)
                    names.append(name)
    return sorted(names) if len({name.split(".")[0]: None for name in names}) == 2 else []

def _device_libraries(repository_ctx, root):
    """Where Debian has the device libraries: with a release of LLVM, the newest first."""
    folders = []
    for release in _RELEASES:
        folder = repository_ctx.path("{}/lib/llvm-{}/lib/clang".format(root, release))
        if folder.exists:
            folders.extend(["lib/llvm-{}/lib/clang/{}/amdgcn/bitcode".format(release, child.basename) for child in folder.readdir()])
    return folders

# The oldest release of LLVM whose driver makes device code as the rules ask it to.
_MINIMUM = 17

def _major(repository_ctx, clang):
    """The release of a clang: a number, 0 where it says none."""
    answer = repository_ctx.execute([clang, "-dumpversion"])
    major = answer.stdout.strip().split(".")[0]
    return int(major) if answer.return_code == 0 and major.isdigit() else 0

def _find_rocm(repository_ctx):
    """The folder with HIP's headers and the one with the device libraries, or None, None."""
    asked_for = repository_ctx.attr.rocm_path or repository_ctx.getenv("ROCM_PATH")
    if asked_for == "none":
        return None, None
    for root in [asked_for] if asked_for else ["/opt/rocm", "/usr"]:
        headers = repository_ctx.path(root + "/include/hip/hip_runtime.h")
        libraries = [
            repository_ctx.path(root + "/" + folder)
            for folder in _device_libraries(repository_ctx, root) + ["amdgcn/bitcode", "lib/llvm/amdgcn/bitcode", "lib/x86_64-linux-gnu/amdgcn/bitcode", "lib/amdgcn/bitcode", "share/amdgcn/bitcode", "lib/llvm/lib/clang/amdgcn/bitcode"]
        ]
        libraries = [folder for folder in libraries if folder.get_child("ockl.bc").exists]
        if headers.exists and libraries:
            return root, libraries[0]
        if asked_for:
            fail("offload_system_clang: {} is no ROCm folder: {}. Correct rocm_path of offload.system_clang, or the variable ROCM_PATH".format(
                root,
                "it has no amdgcn/bitcode/ockl.bc" if headers.exists else "it has no include/hip/hip_runtime.h",
            ))
    return None, None

def _link_rocm(repository_ctx, root, libraries):
    """Links HIP's headers and the device libraries as clang's --rocm-path wants them."""
    if root == "/usr":
        repository_ctx.symlink("/usr/include/hip", "rocm/include/hip")
    else:
        repository_ctx.symlink(root + "/include", "rocm/include")
    repository_ctx.symlink(libraries, "rocm/amdgcn/bitcode")
    for place in ["share/hip/version", "bin/.hipVersion"]:
        version = repository_ctx.path(root + "/" + place)
        if version.exists:
            repository_ctx.symlink(version, "rocm/share/hip/version")
            return
    repository_ctx.file("rocm/share/hip/version", "", executable = False)

def _system_clang_impl(repository_ctx):
    root, rejected = _find(repository_ctx)
    if not root:
        missing = _MISSING.format(why = " ({})".format("; ".join(rejected)) if rejected else "")
        build_file = _compiler(repository_ctx, clang = None, files = [], missing = missing) + _openmp([], " on this machine, as there is no clang")
        constraints = []
    else:
        resources = repository_ctx.execute([root + "/bin/clang", "-print-resource-dir"]).stdout.strip()
        _link_llvm(repository_ctx, root, resources)
        rocm, libraries = _find_rocm(repository_ctx)
        if rocm:
            _link_rocm(repository_ctx, rocm, libraries)
        build_file = _compiler(repository_ctx, clang = "bin/clang", files = ["bin/*", "lib/**"], release = _major(repository_ctx, root + "/bin/clang"), rocm = bool(rocm))
        build_file += _openmp(_link_openmp(repository_ctx, root), " in {}/lib".format(root))
        constraints = _host_constraints(repository_ctx)
    repository_ctx.file("BUILD.bazel", build_file + _toolchain(":clang", repository_ctx.attr.compiler_name, constraints))

_COMPILER_ATTRS = {
    "compile_flags": attr.string_list(doc = "More flags of every device compilation."),
    "link_flags": attr.string_list(doc = "More flags of every device link."),
}

_NAME_ATTRS = {
    "compiler_name": attr.string(mandatory = True, doc = "What the setting device_compiler calls it."),
}

system_clang = repository_rule(
    implementation = _system_clang_impl,
    doc = "The clang and lld of this machine, found at `path`, at $OFFLOAD_LLVM, or in the usual places.",
    attrs = _COMPILER_ATTRS | _NAME_ATTRS | {
        "path": attr.string(doc = "The folder that holds `bin/clang`; empty to search."),
        "rocm_path": attr.string(doc = "The folder that holds `include/hip`; empty to search, `none` for not to."),
    },
    configure = True,
    environ = ["OFFLOAD_LLVM", "ROCM_PATH"],
    local = True,
)

# A compiler from an archive. One repository has what is downloaded; another has the toolchain, which Bazel
# looks at in every build, and is not fetched for that.

def _real_name(repository_ctx, path):
    return repository_ctx.path(path).realpath.basename

def _archive_release(repository_ctx):
    """The release of the clang in an archive, by the folder of its headers: it may be for another machine than this one."""
    folder = repository_ctx.path("lib/clang")
    releases = [child.basename.split(".")[0] for child in folder.readdir()] if folder.exists else []
    numbers = [int(release) for release in releases if release.isdigit()]
    return max(numbers) if numbers else 0

def _archive_clang_impl(repository_ctx):
    download_checked(repository_ctx, "offload.archive_clang", strip_prefix = repository_ctx.attr.strip_prefix, type = repository_ctx.attr.type)
    for name in ["bin/clang", "bin/ld.lld"]:
        if not repository_ctx.path(name).exists:
            fail("offload.archive_clang: {}: the archive has no {}: is strip_prefix = {} right?".format(
                repository_ctx.attr.urls[0],
                name,
                repr(repository_ctx.attr.strip_prefix),
            ))
    release = _archive_release(repository_ctx)
    if release and release < _MINIMUM:
        fail("offload.archive_clang: {}: this is clang {}, {} is the oldest that works: take an archive of a newer release".format(
            repository_ctx.attr.urls[0],
            release,
            _MINIMUM,
        ))
    files = ["bin/clang", "bin/" + _real_name(repository_ctx, "bin/clang"), "bin/ld.lld", "bin/" + _real_name(repository_ctx, "bin/ld.lld")]
    for name in _OTHER_LINKERS:
        if repository_ctx.path("bin/" + name).exists:
            files += ["bin/" + name, "bin/" + _real_name(repository_ctx, "bin/" + name)]
    files += ["lib/clang/*/include/**", "lib/libLLVM*.so*", "lib/libclang-cpp.so*"]
    repository_ctx.file(
        "BUILD.bazel",
        _compiler(repository_ctx, clang = "bin/clang", files = files, release = release) +
        _openmp(_link_openmp(repository_ctx, "."), " in " + repository_ctx.attr.urls[0]),
    )

archive_clang = repository_rule(
    implementation = _archive_clang_impl,
    doc = "A clang and lld from an archive.",
    attrs = _COMPILER_ATTRS | download_attrs | {
        "strip_prefix": attr.string(doc = "The folder in the archive that holds `bin/clang`."),
        "type": attr.string(doc = "Type of the archive, if its name does not tell."),
    },
)

_OPENMP_ALIAS = """
alias(
    name = "openmp_runtime",
    actual = "@{files}//:openmp_runtime",
    visibility = ["//visibility:public"],
)
"""

def _archive_clang_toolchain_impl(repository_ctx):
    repository_ctx.file("BUILD.bazel", _OPENMP_ALIAS.format(files = repository_ctx.attr.files) + _toolchain(
        "@{}//:clang".format(repository_ctx.attr.files),
        repository_ctx.attr.compiler_name,
        platform_constraints(repository_ctx),
    ))

archive_clang_toolchain = repository_rule(
    implementation = _archive_clang_toolchain_impl,
    doc = "The toolchain of an `archive_clang`.",
    attrs = PLATFORM_ATTRS | _NAME_ATTRS | {
        "files": attr.string(mandatory = True, doc = "Name of the repository with the compiler."),
    },
)
