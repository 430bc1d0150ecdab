"""A repository with the clang and lld of the system as a device toolchain."""

_RELEASES = [str(release) for release in range(30, 16, -1)]

def _candidates(repository_ctx):
    if repository_ctx.attr.path:
        return [repository_ctx.attr.path]
    from_environment = repository_ctx.getenv("OFFLOAD_LLVM")
    if from_environment:
        return [from_environment]
    return ["/opt/rocm/llvm"] + ["/usr/lib/llvm-" + release for release in _RELEASES] + ["/usr/lib64/llvm" + release for release in _RELEASES] + ["/usr"]

def _find(repository_ctx):
    """The first LLVM folder with a clang, an lld and the AMDGPU target, and why others are not it."""
    rejected = []
    for root in _candidates(repository_ctx):
        clang = repository_ctx.path(root).get_child("bin").get_child("clang")
        if not clang.exists:
            continue
        if not repository_ctx.path(root).get_child("bin").get_child("ld.lld").exists:
            rejected.append("{} has no ld.lld".format(root))
            continue
        answer = repository_ctx.execute([clang, "--print-targets"])
        if answer.return_code != 0 or "amdgcn" not in answer.stdout:
            rejected.append("{} has no AMDGPU target".format(clang))
            continue
        return root, rejected
    return None, rejected

_MISSING = """no clang with the AMDGPU target and lld was found on this machine{why}.
Install them (Debian: apt-get install clang-22 lld-22), or name the folder that holds bin/clang:
    --repo_env=OFFLOAD_LLVM=/path/to/llvm
or in MODULE.bazel: offload.system_clang(path = "/path/to/llvm")"""

def _link_files(repository_ctx, root, resources):
    """Links what clang needs beside itself, under the paths that it looks at."""
    for name in ["clang", "ld.lld"]:
        repository_ctx.symlink("{}/bin/{}".format(root, name), "bin/" + name)
    repository_ctx.symlink(resources + "/include", "lib/clang/{}/include".format(repository_ctx.path(resources).basename))

    # Programs of an LLVM with shared libraries look for them beside themselves,
    # also on a remote machine that has no LLVM.
    libraries = repository_ctx.path(root).get_child("lib")
    if root != "/usr" and libraries.exists:
        for library in libraries.readdir():
            name = library.basename
            if name.startswith("libLLVM") and ".so" in name or name.startswith("libclang-cpp.so"):
                repository_ctx.symlink(library, "lib/" + name)

def _system_clang_impl(repository_ctx):
    root, rejected = _find(repository_ctx)
    missing = ""
    if root:
        resources = repository_ctx.execute([root + "/bin/clang", "-print-resource-dir"]).stdout.strip()
        _link_files(repository_ctx, root, resources)
    else:
        missing = _MISSING.format(why = " ({})".format("; ".join(rejected)) if rejected else "")
    repository_ctx.file("BUILD.bazel", """load("{toolchains}", "offload_device_toolchain")

offload_device_toolchain(
    name = "system_clang",
    clang = {clang},
    compile_flags = ["-O2", "-nogpulib", "-nogpuinc", "-no-canonical-prefixes", "-ffile-compilation-dir=."],
    files = glob(["bin/*", "lib/**"], allow_empty = True),
    link_flags = ["-no-canonical-prefixes"],
    missing = {missing},
)

toolchain(
    name = "system_clang_toolchain",
    toolchain = ":system_clang",
    toolchain_type = "{device_type}",
)
""".format(
        clang = repr("bin/clang") if root else "None",
        device_type = Label("//rules/toolchain:device_type"),
        missing = repr(missing),
        toolchains = Label("//rules:toolchains.bzl"),
    ))

system_clang = repository_rule(
    implementation = _system_clang_impl,
    doc = "The clang and lld of this machine, found at `path`, at $OFFLOAD_LLVM, or in the usual places.",
    attrs = {
        "path": attr.string(doc = "The folder that holds `bin/clang`; empty to search."),
    },
    configure = True,
    environ = ["OFFLOAD_LLVM"],
    local = True,
)
