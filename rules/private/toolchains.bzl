"""The toolchain rules, and functions for rules that use them."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":cc_flags.bzl", "CC_DEFAULTS_ATTRS")
load(":cc_infos.bzl", "link_info")
load(":compiler_facts.bzl", "check_facts")
load(":messages.bzl", "name_of")
load(":settings.bzl", "SETTINGS_ATTRS", "setting_flag", "settings_of")

PROGRAM_TYPE = Label("//rules/toolchain:program_type")
TARGET_PROGRAM_TYPE = Label("//rules/toolchain:target_program_type")
DEVICE_TYPE = Label("//rules/toolchain:device_type")

# The exec groups of compilations and of device links. Users can select a
# platform or machine for each: exec_properties = {"compile.Pool": "large"}.
COMPILE_GROUP = "compile"
LINK_GROUP = "link"

def _clang_group(more = []):
    return exec_group(toolchains = [PROGRAM_TYPE, config_common.toolchain_type(DEVICE_TYPE, mandatory = False)] + more)

# The exec_groups of a rule that compiles and links device code. A compilation has the headers and flags of the C++ toolchain
# of the platform that it runs on.
CLANG_GROUPS = {
    COMPILE_GROUP: _clang_group(use_cc_toolchain(mandatory = False)),
    LINK_GROUP: _clang_group(),
}

# The exec_groups of a rule that also compiles host code.
HOST_CLANG_GROUPS = CLANG_GROUPS | {COMPILE_GROUP: _clang_group(use_cc_toolchain(mandatory = True))}

def _offload_program_toolchain_impl(ctx):
    return [platform_common.ToolchainInfo(
        offload_program = ctx.attr.program[DefaultInfo].files_to_run,
    )]

offload_program_toolchain = rule(
    implementation = _offload_program_toolchain_impl,
    doc = """Declares an `offload` program, which creates and reads bundles.

The toolchain type is `@rules_offload//rules/toolchain:program_type`. This module registers toolchains with the program of
its release; toolchains that the root module registers take precedence. The `ToolchainInfo` has the field
`offload_program`, a `FilesToRunProvider`.

```starlark
offload_program_toolchain(
    name = "offload",
    program = "bin/offload",
)

toolchain(
    name = "offload_toolchain",
    exec_compatible_with = ["@platforms//os:linux", "@platforms//cpu:x86_64"],
    toolchain = ":offload",
    toolchain_type = "@rules_offload//rules/toolchain:program_type",
)
```
""",
    attrs = {
        "program": attr.label(
            doc = "The program: an executable that supports the commands of `offload` and `--persistent_worker`.",
            mandatory = True,
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
    },
)

offload_target_program_toolchain = rule(
    implementation = _offload_program_toolchain_impl,
    doc = """Declares an `offload` program that runs on the target platform: the target `@rules_offload//rules/toolchain:program`.

The toolchain type is `@rules_offload//rules/toolchain:target_program_type`. Actions run the program of
`offload_program_toolchain`; this one is for `bazel run`, the tools of a genrule and the data of tests. The `ToolchainInfo`
has the field `offload_program`, a `FilesToRunProvider`.

```starlark
offload_target_program_toolchain(
    name = "target_offload",
    program = "bin/offload",
)

toolchain(
    name = "target_offload_toolchain",
    target_compatible_with = ["@platforms//os:linux", "@platforms//cpu:x86_64"],
    toolchain = ":target_offload",
    toolchain_type = "@rules_offload//rules/toolchain:target_program_type",
)
```
""",
    attrs = {
        "program": attr.label(
            doc = "The program, for the target platform.",
            mandatory = True,
            allow_single_file = True,
            executable = True,
            cfg = "target",
        ),
    },
)

_LLD = "ld.lld"
_PTX_LINKER = "clang-nvlink-wrapper"

def _links_ptx(ctx):
    """Reports whether a compiler has the program with which clang links PTX, or does not name its programs."""
    names = {file.basename: None for file in ctx.files.link_files + ctx.files.files}
    return _PTX_LINKER in names or _LLD not in names

def check_links_ptx(ctx, toolchain):
    """Fails if a compiler cannot link code for NVIDIA GPUs.

    Args:
      ctx: the rule's context.
      toolchain: result of `device_toolchain_of`.
    """
    if not toolchain.links_ptx:
        fail("{}: the device compiler has {} but no {}, with which clang links code for NVIDIA GPUs: install it (Debian: clang-tools-22), or use an archive of LLVM that contains it, or another compiler (docs/toolchains.md)".format(name_of(ctx.label), _LLD, _PTX_LINKER))

def _offload_device_toolchain_impl(ctx):
    if ctx.attr.missing:
        return [platform_common.ToolchainInfo(missing = ctx.attr.missing)]
    if not ctx.attr.clang:
        fail("{}: offload_device_toolchain: clang is not set: name a clang with the AMDGPU target".format(name_of(ctx.label)))
    check_facts(ctx.attr.facts, "{}: offload_device_toolchain".format(name_of(ctx.label)))
    rocm = None
    if ctx.file.rocm_version:
        if not ctx.file.rocm_version.path.endswith("/share/hip/version"):
            fail("{}: offload_device_toolchain: rocm_version is {}: expected the file share/hip/version of a directory with the layout of ROCm".format(
                name_of(ctx.label),
                ctx.file.rocm_version.path,
            ))
        rocm = struct(
            device_libraries = ctx.files.device_libraries,
            files = depset([ctx.file.rocm_version] + ctx.files.rocm_files),
            version = ctx.file.rocm_version,
        )
    elif ctx.files.rocm_files or ctx.files.device_libraries:
        fail("{}: offload_device_toolchain: rocm_files is set without rocm_version: clang locates ROCm by the path of share/hip/version".format(name_of(ctx.label)))
    return [platform_common.ToolchainInfo(
        clang = ctx.attr.clang[DefaultInfo].files_to_run,
        compile_files = depset(ctx.files.files + ctx.files.compile_files),
        compile_flags = ctx.attr.compile_flags,
        facts = ctx.attr.facts,
        hip_runtime = ctx.attr.hip_runtime,
        host_compile_flags = ctx.attr.host_compile_flags,
        # Of all libraries whose host code this compiler compiles, once for each program.
        host_link = link_info(ctx, flags = ctx.attr.host_link_flags),
        link_files = depset(ctx.files.files + ctx.files.link_files),
        link_flags = ctx.attr.link_flags,
        links_ptx = _links_ptx(ctx),
        missing = "",
        mode_flags = {
            "dbg": ctx.attr.dbg_flags,
            "fastbuild": ctx.attr.fastbuild_flags,
            "opt": ctx.attr.opt_flags,
        },
        processors = ctx.attr.processors,
        release = ctx.attr.release,
        rocm = rocm,
        without_rocm = ctx.files._without_rocm,
    )]

offload_device_toolchain = rule(
    implementation = _offload_device_toolchain_impl,
    doc = """Declares a clang with lld that compiles and links device code.

The toolchain type is `@rules_offload//rules/toolchain:device_type`. The extension `offload` declares such toolchains for
the system's LLVM or an archive; use this rule for other compilers. `device_toolchain` declares this rule together with
its `toolchain`.

```starlark
offload_device_toolchain(
    name = "clang",
    clang = "bin/clang",
    files = glob(["bin/*", "lib/**"]),
)

toolchain(
    name = "clang_toolchain",
    exec_compatible_with = ["@platforms//os:linux", "@platforms//cpu:x86_64"],
    toolchain = ":clang",
    toolchain_type = "@rules_offload//rules/toolchain:device_type",
)
```
""",
    attrs = {
        "clang": attr.label(
            doc = "The clang driver. It finds `ld.lld` and its resource directory relative to itself, in `files`.",
            executable = True,
            allow_single_file = True,
            cfg = "exec",
        ),
        "compile_files": attr.label_list(
            doc = "Files that only compilations require: resource headers.",
            allow_files = True,
            cfg = "exec",
        ),
        "compile_flags": attr.string_list(
            doc = "Flags for every device compilation, before those of the compilation mode and of the target.",
        ),
        "dbg_flags": attr.string_list(
            doc = "Flags for device compilations with `-c dbg`.",
            default = ["-O1", "-g"],
        ),
        "device_libraries": attr.label_list(
            doc = "The device libraries, which are files in `amdgcn/bitcode` of the ROCm directory of `rocm_version`. Of the files `oclc_isa_version_*.bc`, a compilation only reads the one for its architecture.",
            allow_files = [".bc"],
            cfg = "exec",
        ),
        "facts": attr.string_dict(
            doc = "What the compiler does by default, which the rules do as well: see [Facts](../toolchains.md#facts-about-the-compiler). What is missing depends on `release`.",
        ),
        "fastbuild_flags": attr.string_list(
            doc = "Flags for device compilations with `-c fastbuild`, Bazel's default. They optimize because unoptimized device code is rarely useful.",
            default = ["-O2"],
        ),
        "files": attr.label_list(
            doc = "Files that clang requires to compile and to link, such as shared libraries. Also the linker and resource headers if they are not in `link_files` and `compile_files`.",
            allow_files = True,
            cfg = "exec",
        ),
        "hip_runtime": attr.label(
            doc = "HIP's runtime. Programs with a `hip_library` are linked with it if the setting `//rules/settings:hip_runtime` has its default value.",
            providers = [CcInfo],
        ),
        "host_compile_flags": attr.string_list(
            doc = "Flags for every compilation of host code by this clang, before those of the C++ toolchain and of the target.",
        ),
        "host_link_flags": attr.string_list(
            doc = "Flags for the link of every program and shared library with host code that this clang compiled.",
        ),
        "link_files": attr.label_list(
            doc = "Files that only device links require: `ld.lld`.",
            allow_files = True,
            cfg = "exec",
        ),
        "link_flags": attr.string_list(
            doc = "Flags for every device link.",
        ),
        "missing": attr.string(
            doc = "Error message of rules that require the compiler, if there is no compiler.",
        ),
        "opt_flags": attr.string_list(
            doc = "Flags for device compilations with `-c opt`.",
            default = ["-O3", "-DNDEBUG"],
        ),
        "processors": attr.string_list(
            doc = "The AMD GPUs that the compiler supports (`clang --target=amdgcn-amd-amdhsa --print-supported-cpus`). If not empty, other GPUs fail at analysis time.",
        ),
        "release": attr.int(
            doc = "The LLVM release, such as 22, because flags differ between releases; 0 if it is unknown, for the flags of 23.",
        ),
        "rocm_files": attr.label_list(
            doc = "HIP's headers, `include/hip/**` of the ROCm directory of `rocm_version`, which are inputs of every compilation of HIP. Device libraries can be in this list instead of in `device_libraries`.",
            allow_files = True,
            cfg = "exec",
        ),
        "rocm_version": attr.label(
            doc = "The file `share/hip/version` of a ROCm directory. If set, sources can include `<hip/hip_runtime.h>` and are linked with the device libraries. If not set, neither is available (`-nogpuinc -nogpulib`).",
            allow_single_file = True,
            cfg = "exec",
        ),
        "_without_rocm": attr.label(
            cfg = "exec",
            default = "//rules/private:no_rocm",
        ),
    },
)

# The attribute of a rule that uses a device compiler.
DEVICE_ATTRS = CC_DEFAULTS_ATTRS | SETTINGS_ATTRS

_NO_TOOLCHAIN = """{label}: no registered device compiler supports the execution platforms. Add to MODULE.bazel:
    offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
    use_repo(offload, "offload_system_clang")
    register_toolchains("@offload_system_clang//:all")
and see docs/toolchains.md"""

_NOT_THERE = """{label}: {flag}={value}: no registered device compiler for the execution platforms has this name. \
Use the name of a tag in MODULE.bazel or of a device_toolchain, or register one:
    offload.system_clang(name = "{value}", path = "/path/to/llvm")
    use_repo(offload, "{value}")
    register_toolchains("@{value}//:all")"""

def device_toolchain_of(ctx, exec_group):
    """Returns the device compiler of a rule. If it is missing, fails with a message that names the package to install.

    Args:
      ctx: the rule's context; the rule has `DEVICE_ATTRS`.
      exec_group: name of the exec group that has `DEVICE_TYPE`.

    Returns:
      the `ToolchainInfo` of an `offload_device_toolchain`.
    """
    toolchain = ctx.exec_groups[exec_group].toolchains[DEVICE_TYPE]
    if not toolchain:
        name = settings_of(ctx).device_compiler
        if name:
            fail(_NOT_THERE.format(flag = setting_flag("device_compiler"), label = name_of(ctx.label), value = name))
        fail(_NO_TOOLCHAIN.format(label = name_of(ctx.label)))
    if toolchain.missing:
        fail("{}: {}".format(name_of(ctx.label), toolchain.missing))
    return toolchain
