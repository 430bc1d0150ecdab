package bazeltest

import "strings"

// CcToolchain is a C++ toolchain that a test declares. Its texts are Starlark, in which ROOT is the path of the repository
// in the execution root, and TOOLS has the names of all tools.
type CcToolchain struct {
	CPU    string // the target, a constraint of @platforms//cpu
	Files  string // list of the files that compilations and links require; none if empty
	Config string // arguments of cc_toolchain_config
}

// BuildFile returns a BUILD file with the toolchain, whose name is "toolchain".
func (c CcToolchain) BuildFile() string {
	files := c.Files
	if files == "" {
		files = "[]"
	}
	return strings.NewReplacer("CPU", c.CPU, "FILES", files, "CONFIG", strings.TrimSpace(c.Config)).Replace(ccToolchainFile)
}

const ccToolchainFile = `load("@bazel_tools//tools/cpp:unix_cc_toolchain_config.bzl", "cc_toolchain_config")
load("@rules_cc//cc:defs.bzl", "cc_toolchain")

ROOT = "external/" + repository_name().lstrip("@")

TOOLS = ["ar", "cpp", "dwp", "gcc", "gcov", "ld", "llvm-cov", "llvm-profdata", "nm", "objcopy", "objdump", "strip"]

filegroup(name = "empty")

filegroup(
    name = "files",
    srcs = FILES,
)

cc_toolchain_config(
    name = "config",
    abi_libc_version = "unknown",
    abi_version = "unknown",
    cpu = "CPU",
    host_system_name = "local",
    target_libc = "glibc",
    target_system_name = "CPU-linux-gnu",
    toolchain_identifier = "of_the_test",
    CONFIG
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
        "@platforms//cpu:CPU",
        "@platforms//os:linux",
    ],
    toolchain = ":cc",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)
`
