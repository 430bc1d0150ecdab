"""Repositories with a clang and lld as a device toolchain, from the system or an archive."""

load(":compiler_facts.bzl", "ask_compiler")
load(":directory_links.bzl", "mend_links")
load(":download.bzl", "ARCHIVE_ATTRS", "download_archive", "reproducible")
load(":messages.bzl", "flag_of")
load(":platforms.bzl", "constraints_of", "host_constraints")
load(":rocm_layout.bzl", "KNOWN_LIBRARIES", "LLVM_FOLDERS", "find_device_libraries", "find_version")
load(":rocm_targets.bzl", "no_rocm_targets", "rocm_targets")

_RELEASES = [str(release) for release in range(30, 16, -1)]

# The BUILD file of a repository with a compiler. Compilations get headers but no linker, and links the opposite.
_COMPILER = """load("{toolchains}", "offload_device_toolchain")

offload_device_toolchain(
    name = "clang",
    clang = {clang},
    compile_files = glob(
        {headers},
        allow_empty = True,
        exclude = {foreign_headers},
    ) + select({{
        "{aarch64}": glob({arm_headers}, allow_empty = True),
        "//conditions:default": [],
    }}),
    compile_flags = {compile_flags},
    device_libraries = glob(["rocm/amdgcn/bitcode/*.bc"], allow_empty = True),
    facts = {facts},
    files = glob({files}, allow_empty = True),
    hip_runtime = {hip_runtime},
    host_compile_flags = {host_compile_flags},
    host_link_flags = {host_link_flags},
    link_files = glob({link_files}, allow_empty = True),
    link_flags = {link_flags},
    missing = {missing},
    processors = {processors},
    release = {release},
    rocm_files = glob(["rocm/include/hip/**"], allow_empty = True),
    rocm_version = {rocm_version},
    visibility = ["//visibility:public"],
)
"""

# clang's headers for CPUs that are never hosts, and for Arm.
_FOREIGN_HEADERS = ["altivec.h", "arm_*", "hexagon*", "htm*", "hvx_*", "lasxintrin.h", "lsxintrin.h", "larchintrin.h", "msa.h", "ppc_wrappers/**", "riscv_*", "s390intrin.h", "sifive_*", "vecintrin.h", "velintrin*", "wasm_*"]
_ARM_HEADERS = ["arm_*"]

# The part of a BUILD file with the toolchain to register.
_TOOLCHAIN = """
load("{device_toolchain}", "chosen_by_name")

chosen_by_name(
    name = "{name}",
    compiler = "{compiler}",
    compiler_name = {compiler_name},
    exec_compatible_with = {constraints},
    libraries = {libraries},
)
"""

# The runtime for OpenMP offloading of the same LLVM.
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

_NO_OPENMP_MESSAGE = """the runtime of OpenMP offloading (libomptarget.so, libomp.so) was not found{where}.
Install it (Debian: apt-get install libomp-22-dev liboffload-22-dev, of the release of clang), or set your own library:
    {flag}=//my:runtime"""

# With these, outputs do not contain paths of the machine or sandbox.
_COMPILE_FLAGS = ["-no-canonical-prefixes", "-ffile-compilation-dir=."]
_LINK_FLAGS = ["-no-canonical-prefixes"]

# Programs that link, in addition to lld, if they exist: for SPIR-V (Debian: llvm-22) and PTX (clang-tools-22).
_OTHER_LINKERS = ["llvm-link", "clang-nvlink-wrapper"]

def _compiler(repository_ctx, llvm = None, programs = None, missing = "", facts = {}, processors = [], release = 0, rocm = False, hip_runtime = None):
    """Returns the toolchain of an LLVM directory in the repository. `programs` divides bin into the compiler's and the linkers' programs."""
    below = llvm + "/" if llvm else ""
    headers = below + "lib/clang/*/include/"
    programs = programs or struct(compiler = [], linkers = [])
    return _COMPILER.format(
        aarch64 = Label("@platforms//cpu:aarch64"),
        arm_headers = repr([headers + pattern for pattern in _ARM_HEADERS]),
        clang = repr(None if missing else below + "bin/clang"),
        compile_flags = repr(_COMPILE_FLAGS + repository_ctx.attr.compile_flags),
        facts = repr(facts | repository_ctx.attr.facts),
        files = repr([below + "bin/" + program for program in programs.compiler] + [below + "bin/*.cfg", below + "lib/libLLVM*.so*", below + "lib/libclang-cpp*.so*", "rocm/lib/rocm_sysdeps/lib/*.so*"]),
        foreign_headers = repr([headers + pattern for pattern in _FOREIGN_HEADERS]),
        headers = repr([headers + "**"]),
        hip_runtime = repr(hip_runtime),
        host_compile_flags = repr(repository_ctx.attr.host_compile_flags),
        host_link_flags = repr(repository_ctx.attr.host_link_flags),
        link_files = repr([below + "bin/" + program for program in programs.linkers]),
        link_flags = repr(_LINK_FLAGS + repository_ctx.attr.link_flags),
        missing = repr(missing),
        processors = repr(processors),
        release = release,
        rocm_version = repr("rocm/share/hip/version" if rocm else None),
        toolchains = Label("//rules:toolchains.bzl"),
    )

# The target with all libraries of a ROCm.
_ROCM_LIBRARIES = "rocm_libraries"

def _toolchain(compiler, compiler_name, constraints, name = "clang", rocm = True):
    return _TOOLCHAIN.format(
        name = name,
        compiler = compiler,
        compiler_name = repr(compiler_name),
        constraints = repr(constraints),
        device_toolchain = Label("//rules/private:device_toolchain.bzl"),
        libraries = repr(":" + _ROCM_LIBRARIES if rocm else None),
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

# The system's compiler.

def _candidates(repository_ctx):
    if repository_ctx.attr.path:
        return [repository_ctx.attr.path]
    from_environment = repository_ctx.getenv("OFFLOAD_LLVM")
    if from_environment:
        return [from_environment]
    return ["/opt/rocm/lib/llvm", "/opt/rocm/llvm"] + ["/usr/lib/llvm-" + release for release in _RELEASES] + ["/usr/lib64/llvm" + release for release in _RELEASES] + ["/usr"]

def _find(repository_ctx):
    """Returns the first LLVM directory with clang, lld and the AMDGPU target, and the reasons why others were rejected."""
    rejected = []
    candidates = _candidates(repository_ctx)
    for root in candidates:
        clang = repository_ctx.path(root).get_child("bin").get_child("clang")
        lld = repository_ctx.path(root).get_child("bin").get_child("ld.lld")

        # The next build detects an installation, removal or repair.
        repository_ctx.watch(clang)
        repository_ctx.watch(lld)
        if not clang.exists:
            if len(candidates) == 1:
                rejected.append("{} does not exist".format(clang))
            continue
        if not lld.exists:
            rejected.append("bin/ld.lld is missing in {}".format(root))
            continue
        answer = repository_ctx.execute([clang, "--print-targets"])
        if answer.return_code != 0:
            rejected.append("{} does not work: {}".format(clang, (answer.stderr or answer.stdout).strip() or "exit status {}".format(answer.return_code)))
            continue
        if "amdgcn" not in answer.stdout:
            rejected.append("{} has no AMDGPU target".format(clang))
            continue
        major = _major(repository_ctx, clang)
        if major and major < _MINIMUM:
            rejected.append("{} is release {}, expected {} or newer".format(clang, major, _MINIMUM))
            continue
        return root, rejected
    return None, rejected

_MISSING = """no clang with the AMDGPU target and lld was found on this machine{why}.
Install them (Debian: apt-get install clang-22 lld-22; Fedora: dnf install clang lld), or name the directory that contains bin/clang:
    --repo_env=OFFLOAD_LLVM=/path/to/llvm
or in MODULE.bazel: offload.system_clang(path = "/path/to/llvm"), or offload.archive_clang(...) for a compiler from an archive."""

def _link_llvm(repository_ctx, root, resources):
    """Creates links to files that clang requires, at the paths where it looks for them; returns the names of the programs."""
    linkers = []
    for name in ["clang", "ld.lld"] + _OTHER_LINKERS:
        program = repository_ctx.path("{}/bin/{}".format(root, name))
        if program.exists:
            repository_ctx.symlink(program, "bin/" + name)
            if name != "clang":
                linkers.append(name)
    programs = struct(compiler = ["clang"], linkers = linkers)
    repository_ctx.symlink(resources + "/include", "lib/clang/{}/include".format(repository_ctx.path(resources).basename))

    # Programs of an LLVM with shared libraries look for them relative to
    # themselves, also on a remote machine without LLVM.
    libraries = repository_ctx.path(root).get_child("lib")
    if root == "/usr" or not libraries.exists:
        return programs
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
    return programs

# The configuration file that clang reads from its own directory.
_CONFIGURATION = "clang.cfg"

def _link_asked(repository_ctx, root, asked):
    """Creates links to what the compiler's answers name: its configuration files, and the translator to SPIR-V. Returns the names of programs."""

    # The next build notices a new file.
    folder = repository_ctx.path(root + "/bin/clang").realpath.dirname
    repository_ctx.watch(folder.get_child(_CONFIGURATION))
    linked = {}
    for path in asked.configuration:
        repository_ctx.watch(path)

        # Configuration files include others by their name.
        for other in repository_ctx.path(path).dirname.readdir():
            if other.basename.endswith(".cfg") and other.basename not in linked:
                linked[other.basename] = True
                repository_ctx.watch(other)
                repository_ctx.symlink(other, "bin/" + other.basename)
    if not asked.translator:
        return []
    name = asked.translator.rpartition("/")[2]
    repository_ctx.symlink(asked.translator, "bin/" + name)
    return [name]

def _link_openmp(repository_ctx, root):
    """Creates links to the runtime for OpenMP offloading; returns their names, or none if a part is missing."""
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

# The oldest release of LLVM whose driver supports the flags of the rules.
_MINIMUM = 17

def _major(repository_ctx, clang):
    """Returns the release of a clang as a number, 0 if it is unknown."""
    answer = repository_ctx.execute([clang, "-dumpversion"])
    major = answer.stdout.strip().split(".")[0]
    return int(major) if answer.return_code == 0 and major.isdigit() else 0

def _processors(repository_ctx, clang):
    """Returns the AMD GPUs that a clang supports, empty if it does not tell them, e.g. because it is for another machine."""
    answer = repository_ctx.execute([clang, "--target=amdgcn-amd-amdhsa", "--print-supported-cpus"])
    if answer.return_code != 0:
        return []
    lines = [line.strip() for line in (answer.stdout + answer.stderr).splitlines() if line.startswith("\t")]
    return sorted([line for line in lines if line.startswith("gfx")])

def _find_rocm(repository_ctx, resources):
    """Returns the directories of ROCm and of its device libraries, or None, None. `resources` is clang's resource directory."""
    asked_for = repository_ctx.attr.rocm_path or repository_ctx.getenv("ROCM_PATH")
    if asked_for == "none":
        return None, None
    for root in [asked_for] if asked_for else ["/opt/rocm", "/usr"]:
        headers = repository_ctx.path(root + "/include/hip/hip_runtime.h")
        repository_ctx.watch(headers)
        libraries = find_device_libraries(repository_ctx, root, [resources + "/amdgcn/bitcode", resources + "/lib/amdgcn/bitcode"])
        if headers.exists and libraries:
            return root, libraries
        if asked_for:
            fail("offload_system_clang: {} is not a ROCm directory: {}. Correct rocm_path of offload.system_clang, or the variable ROCM_PATH".format(
                root,
                "it has no device libraries (amdgcn/bitcode/ockl.bc)" if headers.exists else "it has no include/hip/hip_runtime.h",
            ))
    return None, None

def _link_rocm(repository_ctx, root, libraries):
    """Creates links to the device libraries and the version file, in the layout that clang's --rocm-path requires."""
    repository_ctx.symlink(libraries, "rocm/amdgcn/bitcode")
    version = find_version(repository_ctx, root)
    if version:
        repository_ctx.symlink(version, "rocm/share/hip/version")
    else:
        repository_ctx.file("rocm/share/hip/version", "", executable = False)

def _system_clang_impl(repository_ctx):
    root, rejected = _find(repository_ctx)
    if not root:
        missing = _MISSING.format(why = " ({})".format("; ".join(rejected)) if rejected else "")
        build_file = _compiler(repository_ctx, missing = missing) + _openmp([], " on this machine, because there is no clang") + no_rocm_targets(" on this machine, because there is no clang")
        constraints = []
    else:
        resources = repository_ctx.execute([root + "/bin/clang", "-print-resource-dir"]).stdout.strip()
        programs = _link_llvm(repository_ctx, root, resources)
        processors = _processors(repository_ctx, root + "/bin/clang")
        asked = ask_compiler(repository_ctx, root + "/bin/clang", processors)
        programs.linkers.extend(_link_asked(repository_ctx, root, asked))
        rocm, libraries = _find_rocm(repository_ctx, resources)
        hip_runtime = None
        if rocm:
            _link_rocm(repository_ctx, rocm, libraries)
            targets = rocm_targets(repository_ctx, rocm, link = True)
            rocm_build, hip_runtime = targets.build, targets.hip
        else:
            rocm_build = no_rocm_targets(" on this machine")
        build_file = _compiler(repository_ctx, facts = asked.facts, hip_runtime = hip_runtime, processors = processors, programs = programs, release = _major(repository_ctx, root + "/bin/clang"), rocm = bool(rocm))
        build_file += _openmp(_link_openmp(repository_ctx, root), " in {}/lib".format(root)) + rocm_build
        constraints = host_constraints(repository_ctx.os)
    repository_ctx.file("BUILD.bazel", build_file + _toolchain(":clang", repository_ctx.attr.compiler_name, constraints))

_COMPILER_ATTRS = {
    "compile_flags": attr.string_list(doc = "Additional flags for every device compilation."),
    "facts": attr.string_dict(doc = "What the compiler does, instead of its answers."),
    "host_compile_flags": attr.string_list(doc = "Additional flags for every compilation of host code."),
    "host_link_flags": attr.string_list(doc = "Additional flags for the link of every program with host code."),
    "link_flags": attr.string_list(doc = "Additional flags for every device link."),
}

_NAME_ATTRS = {
    "compiler_name": attr.string(mandatory = True, doc = "Name of the compiler in the setting device_compiler."),
}

system_clang = repository_rule(
    implementation = _system_clang_impl,
    doc = "The clang and lld of this machine, found at `path`, at $OFFLOAD_LLVM, or in the usual locations.",
    attrs = _COMPILER_ATTRS | _NAME_ATTRS | {
        "path": attr.string(doc = "The directory that contains `bin/clang`; empty to search for it."),
        "rocm_path": attr.string(doc = "The directory that contains `include/hip`; empty to search for it, `none` to disable the search."),
    },
    configure = True,
    environ = ["OFFLOAD_LLVM", "ROCM_PATH"],
    local = True,
)

# A compiler from an archive. One repository has the download; another has the toolchain. Bazel reads the toolchain in
# every build without fetching the download.

def _real_name(repository_ctx, path):
    return repository_ctx.path(path).realpath.basename

def _archive_release(repository_ctx, llvm):
    """Returns the release of the clang in an archive from its header directory, because it may be for another machine."""
    folder = repository_ctx.path(llvm + "/lib/clang")
    releases = [child.basename.split(".")[0] for child in folder.readdir()] if folder.exists else []
    numbers = [int(release) for release in releases if release.isdigit()]
    return max(numbers) if numbers else 0

def _archive_programs(repository_ctx, llvm):
    """Returns the programs of the compiler and the linkers in an archive, including the targets of links."""
    names = {}
    for name in ["clang", "ld.lld"] + _OTHER_LINKERS:
        path = "{}/bin/{}".format(llvm, name)
        names[name] = {file: True for file in [name, _real_name(repository_ctx, path)]}.keys() if repository_ctx.path(path).exists else []
    compiler = names.pop("clang")
    return struct(compiler = compiler, linkers = [name for linker in names.values() for name in linker])

def _check_archive(repository_ctx, tag, llvm):
    """Fails if an archive has no usable compiler; returns the release of the compiler."""
    for name in ["bin/clang", "bin/ld.lld"]:
        if not repository_ctx.path("{}/{}".format(llvm, name)).exists:
            fail("{}: {}: {} is missing in the archive: correct strip_prefix = {}".format(
                tag,
                repository_ctx.attr.urls[0],
                name,
                repr(repository_ctx.attr.strip_prefix),
            ))
    release = _archive_release(repository_ctx, llvm)
    if release and release < _MINIMUM:
        fail("{}: {}: found clang {}, expected {} or newer: use an archive of a newer release".format(
            tag,
            repository_ctx.attr.urls[0],
            release,
            _MINIMUM,
        ))
    return release

# Names in the programs of AMD's compiler: the address of its sources.
_AMD_SOURCES = "ROCm/llvm-project|RadeonOpenCompute/llvm-project"

def _archive_compiler(repository_ctx, llvm, **kwargs):
    """Returns the toolchain of a compiler in an archive, which is asked if it runs on this machine."""
    clang = "./{}/bin/clang".format(llvm)
    processors = _processors(repository_ctx, clang)
    asked = ask_compiler(repository_ctx, clang, processors)
    facts = dict(asked.facts)
    programs = _archive_programs(repository_ctx, llvm)
    if not facts:
        libraries = repository_ctx.path(llvm + "/lib")
        files = [clang] + [child for child in (libraries.readdir() if libraries.exists else []) if child.basename.startswith("libclang-cpp.so")]
        facts["vendor"] = "amd" if repository_ctx.execute(["grep", "-qaE", _AMD_SOURCES] + files).return_code == 0 else ""
    if asked.translator:
        name = asked.translator.rpartition("/")[2]
        if repository_ctx.path("{}/bin/{}".format(llvm, name)).exists:
            programs.linkers.append(name)
        else:
            # It is this machine's, which the driver found on PATH.
            facts["spirv_missing"] = name
    return _compiler(repository_ctx, facts = facts, llvm = llvm if llvm != "." else None, processors = processors, programs = programs, **kwargs)

def _archive_clang_impl(repository_ctx):
    download_archive(repository_ctx, "offload.archive_clang")
    release = _check_archive(repository_ctx, "offload.archive_clang", ".")
    repository_ctx.file(
        "BUILD.bazel",
        _archive_compiler(repository_ctx, ".", release = release) +
        _openmp(_link_openmp(repository_ctx, "."), " in " + repository_ctx.attr.urls[0]),
    )
    return reproducible(repository_ctx)

archive_clang = repository_rule(
    implementation = _archive_clang_impl,
    doc = "A clang and lld from an archive.",
    attrs = _COMPILER_ATTRS | ARCHIVE_ATTRS,
)

# A ROCm from an archive, including its compiler.

_OUTSIDE = "{tag}: {url}: {count} links lead out of the archive, to files that other machines do not have, and are left out: {links}"
_SHOWN = 5

def _archive_rocm_impl(repository_ctx):
    tag = "offload.archive_rocm"
    download_archive(repository_ctx, tag, output = "rocm")
    for overlay in repository_ctx.attr.overlays:
        archive = struct(**json.decode(overlay))
        download_archive(repository_ctx, "offload.overlay", archive = archive, output = "rocm/" + archive.directory if archive.directory else "rocm")
    outside = mend_links(repository_ctx, "rocm")
    if outside:
        # buildifier: disable=print
        print(_OUTSIDE.format(count = len(outside), links = ", ".join(outside[:_SHOWN]) + (", …" if len(outside) > _SHOWN else ""), tag = tag, url = repository_ctx.attr.urls[0]))
    llvms = [folder for folder in LLVM_FOLDERS if repository_ctx.path("rocm/{}/bin/clang".format(folder)).exists]
    llvm = "rocm/" + (llvms or LLVM_FOLDERS)[0]
    release = _check_archive(repository_ctx, tag, llvm)
    libraries = find_device_libraries(repository_ctx, "rocm")
    headers = repository_ctx.path("rocm/include/hip/hip_runtime.h")
    if not libraries or not headers.exists:
        fail("{}: {}: {} is missing in the archive: correct strip_prefix = {}".format(
            tag,
            repository_ctx.attr.urls[0],
            "device libraries (amdgcn/bitcode/ockl.bc)" if headers.exists else "include/hip/hip_runtime.h",
            repr(repository_ctx.attr.strip_prefix),
        ))
    if libraries != "rocm/amdgcn/bitcode":
        repository_ctx.symlink(libraries, "rocm/amdgcn/bitcode")
    if not repository_ctx.path("rocm/share/hip/version").exists:
        version = find_version(repository_ctx, "rocm")
        repository_ctx.file("rocm/share/hip/version", repository_ctx.read(version) if version else "", executable = False)
    targets = rocm_targets(repository_ctx, "rocm", link = False)
    repository_ctx.file(
        "BUILD.bazel",
        _archive_compiler(repository_ctx, llvm, hip_runtime = targets.hip, release = release, rocm = True) +
        _openmp(_link_openmp(repository_ctx, llvm), " in " + repository_ctx.attr.urls[0]) +
        targets.build,
    )
    return reproducible(repository_ctx)

archive_rocm = repository_rule(
    implementation = _archive_rocm_impl,
    doc = "ROCm from an archive.",
    attrs = _COMPILER_ATTRS | ARCHIVE_ATTRS | {
        "overlays": attr.string_list(doc = "Archives to extract over the first one, as JSON of `directory`, `integrity`, `sha256`, `strip_prefix`, `type` and `urls`."),
    },
)

# The toolchains for both kinds of archives.

_SETTING = """
config_setting(
    name = "{platform}",
    constraint_values = {constraints},
)
"""

_ALIASES = """
[
    alias(
        name = name,
        actual = {actual},
        visibility = ["//visibility:public"],
    )
    for name in {names}
]
"""

def _library_of(files):
    """Returns the expression for a target of the repository of the target platform, which has its libraries."""
    if len(files) == 1:
        return "\"@{}//:\" + name".format(files.values()[0])
    return "select({{{}}})".format(", ".join(["\"{}\": \"@{}//:\" + name".format(platform, name) for platform, name in files.items()]))

def _compiler_toolchains_impl(repository_ctx):
    files = repository_ctx.attr.files
    names = ["openmp_runtime"] + (KNOWN_LIBRARIES + [_ROCM_LIBRARIES] + repository_ctx.attr.libraries if repository_ctx.attr.rocm else [])
    text = "".join([_SETTING.format(constraints = repr(constraints_of(platform)), platform = platform) for platform in files]) if len(files) > 1 else ""
    text += _ALIASES.format(actual = _library_of(files), names = repr(names))
    for platform, repository in files.items():
        text += _toolchain("@{}//:clang".format(repository), repository_ctx.attr.compiler_name, constraints_of(platform), name = "clang" if len(files) == 1 else "clang_" + platform, rocm = repository_ctx.attr.rocm)
    repository_ctx.file("BUILD.bazel", text)
    return reproducible(repository_ctx)

compiler_toolchains = repository_rule(
    implementation = _compiler_toolchains_impl,
    doc = "The toolchains of an `archive_clang` or `archive_rocm`.",
    attrs = _NAME_ATTRS | {
        "files": attr.string_dict(mandatory = True, doc = "From `OS-CPU` to the name of the repository with the compiler."),
        "libraries": attr.string_list(doc = "Names of other libraries that the repositories have."),
        "rocm": attr.bool(doc = "Whether the repositories also have ROCm's libraries."),
    },
)
