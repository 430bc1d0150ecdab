package cctoolchains

import "github.com/rules-offload/rules_offload/tests/internal/bazeltest"

// platformFile declares the machine of the cross compiler.
const platformFile = `
platform(
    name = "aarch64",
    constraint_values = [
        "@platforms//cpu:aarch64",
        "@platforms//os:linux",
    ],
)
`

// crossCompiler is GCC for another machine.
var crossCompiler = bazeltest.CcToolchain{
	CPU: "aarch64",
	Config: `
    compile_flags = ["-fstack-protector"],
    compiler = "gcc",
    cxx_builtin_include_directories = [
        "/usr/aarch64-linux-gnu/include",
        "/usr/include",
        "/usr/lib/gcc-cross/aarch64-linux-gnu",
        "/usr/lib/linux",
    ],
    cxx_flags = ["-std=c++20"],
    link_libs = ["-lstdc++", "-lm"],
    tool_paths = {tool: "/usr/bin/aarch64-linux-gnu-" + tool for tool in TOOLS},
`,
}

// ofRepository returns clang with a sysroot and a standard library that are in a repository. llvm is the directory of
// LLVM's programs.
func ofRepository(llvm string) bazeltest.CcToolchain {
	return bazeltest.CcToolchain{
		CPU: "x86_64",
		Files: `glob([
        "libcxx/include/**",
        "libcxx/lib/*.a",
        "sysroot/lib64/**",
        "sysroot/usr/**",
    ])`,
		Config: `
    builtin_sysroot = ROOT + "/sysroot",
    compiler = "clang",
    cxx_builtin_include_directories = [
        ROOT,
        "` + llvm + `/../lib/clang",
        "/usr/lib/clang",
        "/usr/lib/llvm-22/lib/clang",
    ],
    cxx_flags = [
        "-stdlib=libc++",
        "-nostdinc++",
        "-isystem",
        ROOT + "/libcxx/include/c++/v1",
    ],
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
    tool_paths = {
        tool: "` + llvm + `/" + {"cpp": "clang-cpp", "gcc": "clang", "ld": "ld.lld"}.get(tool, "llvm-" + tool.removeprefix("llvm-"))
        for tool in TOOLS
    },
`,
	}
}
