"""Which flags of the C++ toolchain and of `--copt` reach host and device code of HIP and OpenMP.

These tables are the default values of settings. Each entry is the beginning of flags.
"""

load(":clang_options.bzl", "OF_AMDGPU")

# Flags that compilations of host and device code never take.
HOST_SKIP = [
    # The rule determines inputs, outputs and languages.
    "-M",
    "-o",
    "-x",
    "-gsplit-dwarf",
    "-save-temps",
    "--save-temps",
    # Offload entries are read from machine code, which does not exist before the link with link-time optimization.
    "-flto",
    "-ffat-lto-objects",
    "-fno-fat-lto-objects",
    "-fsanitize=cfi",
    "-fsanitize-cfi",
    "-fsplit-lto-unit",
    "-fthin",
    "-fvirtual-function-elimination",
    "-fwhole-program",
    # Files of one compiler that others cannot read.
    "-fauto-profile",
    "-fmodule",
    "-fpass-plugin",
    "-fplugin",
    "-fprebuilt-module",
    "-fprofile-instr-use",
    "-fprofile-sample-use",
    "-fprofile-use",
    "-resource-dir",
    "-specs",
    "--specs",
]

# Flags that also apply to device code, which requires the same declarations as host code, and flags for device code.
DEVICE_KEEP = [
    "--gcc-install-dir",
    "--gcc-toolchain",
    "--sysroot",
    "-D",
    "-I",
    "-U",
    "-cxx-isystem",
    "-fchar8_t",
    "-fno-char8_t",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-short-enums",
    "-fno-signed-char",
    "-fno-unsigned-char",
    "-fshort-enums",
    "-fsigned-char",
    "-fsized-deallocation",
    "-funsigned-char",
    "-idirafter",
    "-imacros",
    "-include",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-nostdinc",
    "-nostdlibinc",
    "-std=",
    "-stdlib",
    # For toolchains that define __DATE__.
    "-Wno-builtin-macro-redefined",
] + OF_AMDGPU

# Flags of --copt that device code also gets.
USER_KEEP = ["-mllvm"]

# The beginning of flags for processors.
OF_PROCESSORS = "-m"

# Flags for CPU code or for the CPU's linker. Of the flags of --copt, device code takes all others.
CPU_ONLY = [
    "--coverage",
    "--target",
    "-B",
    "-D_FORTIFY_SOURCE",
    "-L",
    "-U_FORTIFY_SOURCE",
    "-Wa,",
    "-Wl,",
    "-Xassembler",
    "-Xlinker",
    "-fPIC",
    "-fPIE",
    "-fcf-protection",
    "-fcoverage",
    "-finstrument",
    "-fno-PIC",
    "-fno-PIE",
    "-fno-pic",
    "-fno-pie",
    "-fno-plt",
    "-fno-sanitize",
    "-fno-stack",
    "-fpatchable",
    "-fpic",
    "-fpie",
    "-fplt",
    "-fprofile",
    "-fsanitize",
    "-fsplit-stack",
    "-fstack",
    "-ftest-coverage",
    "-fuse-ld",
    "-fxray",
    "-l",
    "-pg",
    "-pie",
    "-pthread",
    "-rdynamic",
    "-shared",
    "-static",
    "-target",
    OF_PROCESSORS,
]

# Flags for the target of the C++ toolchain.
TARGET = ["--target", "-target"]
