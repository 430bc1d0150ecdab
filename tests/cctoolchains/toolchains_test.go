package cctoolchains

// crossFile declares the machine and its compiler.
const crossFile = `load("@bazel_tools//tools/cpp:unix_cc_toolchain_config.bzl", "cc_toolchain_config")
load("@rules_cc//cc:defs.bzl", "cc_toolchain")

platform(
    name = "aarch64",
    constraint_values = [
        "@platforms//cpu:aarch64",
        "@platforms//os:linux",
    ],
)

filegroup(name = "empty")

cc_toolchain_config(
    name = "config",
    abi_libc_version = "unknown",
    abi_version = "unknown",
    compile_flags = ["-fstack-protector"],
    compiler = "gcc",
    cpu = "aarch64",
    cxx_builtin_include_directories = [
        "/usr/aarch64-linux-gnu/include",
        "/usr/include",
        "/usr/lib/gcc-cross/aarch64-linux-gnu",
        "/usr/lib/linux",
    ],
    cxx_flags = ["-std=c++20"],
    host_system_name = "local",
    link_libs = ["-lstdc++", "-lm"],
    target_libc = "glibc",
    target_system_name = "aarch64-linux-gnu",
    tool_paths = {
        "ar": "/usr/bin/aarch64-linux-gnu-ar",
        "cpp": "/usr/bin/aarch64-linux-gnu-cpp",
        "dwp": "/usr/bin/aarch64-linux-gnu-dwp",
        "gcc": "/usr/bin/aarch64-linux-gnu-gcc",
        "gcov": "/usr/bin/aarch64-linux-gnu-gcov",
        "ld": "/usr/bin/aarch64-linux-gnu-ld",
        "llvm-cov": "/bin/false",
        "llvm-profdata": "/bin/false",
        "nm": "/usr/bin/aarch64-linux-gnu-nm",
        "objcopy": "/usr/bin/aarch64-linux-gnu-objcopy",
        "objdump": "/usr/bin/aarch64-linux-gnu-objdump",
        "strip": "/usr/bin/aarch64-linux-gnu-strip",
    },
    toolchain_identifier = "aarch64",
)

cc_toolchain(
    name = "cc",
    all_files = ":empty",
    ar_files = ":empty",
    compiler_files = ":empty",
    dwp_files = ":empty",
    linker_files = ":empty",
    objcopy_files = ":empty",
    strip_files = ":empty",
    toolchain_config = ":config",
)

toolchain(
    name = "cc_toolchain",
    target_compatible_with = [
        "@platforms//cpu:aarch64",
        "@platforms//os:linux",
    ],
    toolchain = ":cc",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)
`

// repositoryFile declares clang with a sysroot and a standard library that are in the repository.
const repositoryFile = `load("@bazel_tools//tools/cpp:unix_cc_toolchain_config.bzl", "cc_toolchain_config")
load("@rules_cc//cc:defs.bzl", "cc_toolchain")

ROOT = "external/" + repository_name().lstrip("@")

filegroup(
    name = "files",
    srcs = glob([
        "libcxx/include/**",
        "libcxx/lib/*.a",
        "sysroot/lib64/**",
        "sysroot/usr/**",
    ]),
)

filegroup(name = "empty")

cc_toolchain_config(
    name = "config",
    abi_libc_version = "unknown",
    abi_version = "unknown",
    builtin_sysroot = ROOT + "/sysroot",
    compiler = "clang",
    cpu = "k8",
    cxx_builtin_include_directories = [
        ROOT,
        "LLVM/../lib/clang",
        "/usr/lib/clang",
        "/usr/lib/llvm-22/lib/clang",
    ],
    cxx_flags = [
        "-stdlib=libc++",
        "-nostdinc++",
        "-isystem",
        ROOT + "/libcxx/include/c++/v1",
    ],
    host_system_name = "local",
    link_flags = [
        "-fuse-ld=lld",
        "-nostdlib++",
        "-L" + ROOT + "/libcxx/lib",
    ],
    link_libs = [
        "-l:libc++.a",
        "-l:libc++abi.a",
        "-lm",
    ],
    target_libc = "glibc",
    target_system_name = "x86_64-linux-gnu",
    tool_paths = {
        "ar": "LLVM/llvm-ar",
        "cpp": "LLVM/clang-cpp",
        "dwp": "/bin/false",
        "gcc": "LLVM/clang",
        "gcov": "/bin/false",
        "ld": "LLVM/ld.lld",
        "llvm-cov": "/bin/false",
        "llvm-profdata": "/bin/false",
        "nm": "LLVM/llvm-nm",
        "objcopy": "LLVM/llvm-objcopy",
        "objdump": "LLVM/llvm-objdump",
        "strip": "LLVM/llvm-strip",
    },
    toolchain_identifier = "repository",
)

cc_toolchain(
    name = "cc",
    all_files = ":files",
    ar_files = ":empty",
    compiler_files = ":files",
    dwp_files = ":empty",
    linker_files = ":files",
    objcopy_files = ":empty",
    strip_files = ":empty",
    toolchain_config = ":config",
)

toolchain(
    name = "toolchain",
    target_compatible_with = [
        "@platforms//cpu:x86_64",
        "@platforms//os:linux",
    ],
    toolchain = ":cc",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)
`
