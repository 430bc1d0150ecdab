"""Tests of facts about the compiler: how the driver's answers are read, and what the rules make of facts."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("//rules:defs.bzl", "hip_code_objects", "hip_library", "openmp_library")
load("//rules:toolchains.bzl", "offload_device_toolchain")
load("//rules/private:clang_words.bzl", "arguments_of", "facts_of_commands", "family_of")  # buildifier: disable=bzl-visibility
load("//rules/private:compiler_facts.bzl", "describe_facts", "fact")  # buildifier: disable=bzl-visibility
load(":testing.bzl", "actions_test_with", "failure_test")

# Answers of clang 22, 23 and 24 for two GPUs, without most of the words.
_OLD = """
 "/usr/lib/llvm-22/bin/clang" "-cc1" "-triple" "amdgcn-amd-amdhsa" "-aux-triple" "x86_64-pc-linux-gnu" "-O2" "-emit-obj" "-target-cpu" "gfx1100" "-o" "/tmp/null-gfx1100-5c.o" "-x" "hip" "/dev/null"
 "/usr/lib/llvm-22/bin/lld" "-flavor" "gnu" "-m" "elf64_amdgpu" "-shared" "-plugin-opt=-amdgpu-internalize-symbols" "--lto-partitions=8" "-plugin-opt=mcpu=gfx1100" "-plugin-opt=O2" "--lto-CGO2" "--whole-archive" "-o" "/tmp/null-gfx1100-1b.out"
 "/usr/lib/llvm-22/bin/clang" "-cc1" "-triple" "amdgcn-amd-amdhsa" "-mcode-object-version=5" "-O2" "-emit-obj" "-target-cpu" "gfx90a" "-o" "/tmp/null-gfx90a-97.o" "-x" "hip" "/dev/null"
 "/usr/lib/llvm-22/bin/lld" "-flavor" "gnu" "-m" "elf64_amdgpu" "-shared" "-plugin-opt=-amdgpu-internalize-symbols" "-plugin-opt=mcpu=gfx90a" "-mllvm" "-my-option" "-plugin-opt=O2" "-o" "/tmp/null-gfx90a-3e.out"
 "/usr/lib/llvm-22/bin/clang-offload-bundler" "-type=o" "-targets=host-x86_64-unknown-linux-gnu,hipv4-amdgcn-amd-amdhsa--gfx1100" "-compress" "-output=/tmp/null-4b.hipfb"
 "/usr/lib/llvm-22/bin/clang" "-cc1" "-triple" "x86_64-pc-linux-gnu" "-emit-obj" "-target-cpu" "x86-64" "-o" "/dev/null.o"
"""
_NEW = """
 "/usr/lib/llvm-23/bin/clang" "-cc1" "-triple" "amdgcn-amd-amdhsa" "-emit-llvm-bc" "-flto=full" "-flto-unit" "-target-cpu" "gfx1100" "-o" "/tmp/null-gfx1100-e4.o"
 "/usr/lib/llvm-23/bin/clang" "-cc1" "-triple" "amdgcn-amd-amdhsa" "-emit-llvm-bc" "-flto=full" "-flto-unit" "-target-cpu" "gfx90a" "-o" "/tmp/null-gfx90a-9f.o"
 "/usr/lib/llvm-23/bin/llvm-offload-binary" "-o" "/tmp/null-b3.out" "--image=file=/tmp/null-gfx1100-e4.o,triple=amdgcn-amd-amdhsa,arch=gfx1100,kind=hip"
 "/usr/lib/llvm-23/bin/clang-linker-wrapper" "--should-extract=gfx1100" "--device-compiler=amdgcn-amd-amdhsa=-O2" "--device-compiler=amdgcn-amd-amdhsa=-mllvm" "--device-compiler=amdgcn-amd-amdhsa=-my-option=1" "--device-compiler=amdgcn-amd-amdhsa=-flto=full" "--device-linker=amdgcn-amd-amdhsa=--lto-partitions=4" "--emit-fatbin-only" "-o" "/tmp/null-c9.hipfb"
"""
_NEWEST = """
 "/usr/lib/llvm-24/bin/clang" "-cc1" "-triple" "amdgpu11.00-amd-amdhsa" "-emit-llvm-bc" "-flto=full" "-o" "/tmp/null-gfx1100-d6.o"
 "/usr/lib/llvm-24/bin/clang" "-cc1" "-triple" "amdgpu9.0a-amd-amdhsa" "-emit-llvm-bc" "-target-cpu" "gfx90a" "-o" "/tmp/null-gfx90a-ae.o"
"""

def _commands(text):
    return [arguments_of(line) for line in text.splitlines() if line.startswith(" \"")]

def _answers_test_impl(ctx):
    env = unittest.begin(ctx)
    for text, want in [
        (_OLD, {
            "code_object_version gfx9": "5",
            "compression": "zstd",
            "instruction_sets": "no",
            "link_flags": "-plugin-opt=-amdgpu-internalize-symbols --lto-partitions=8",
            "link_flags gfx9": "-plugin-opt=-amdgpu-internalize-symbols -plugin-opt=-my-option",
            "linker": "lld",
            "lto_hip": "none",
            "packing": "bundler",
        }),
        (_NEW, {
            "compression": "none",
            "instruction_sets": "no",
            "link_flags": "--lto-partitions=4 -plugin-opt=-my-option=1",
            "linker": "clang-linker-wrapper",
            "lto_hip": "full",
            "packing": "offload-binary",
        }),
        (_NEWEST, {"instruction_sets": "yes", "lto_hip": "full", "lto_hip gfx9": "none"}),
    ]:
        asserts.equals(env, want, facts_of_commands(_commands(text), "lto_hip", ["gfx1100", "gfx90a"]))
    asserts.equals(env, {"lto_hip_rdc": "objects"}, facts_of_commands(_commands(_OLD), "lto_hip_rdc", ["gfx1100"]))
    asserts.equals(env, {"lto_hip_rdc": "full"}, facts_of_commands(_commands(_NEW), "lto_hip_rdc", ["gfx90a"]))
    asserts.equals(env, {}, facts_of_commands([], "lto_openmp", ["gfx90a"]))
    asserts.equals(env, ["a b", "-DX=\"y\"", "$\\"], arguments_of(" \"a b\" \"-DX=\\\"y\\\"\" \"\\$\\\\\""))
    asserts.equals(env, ["gfx9", "gfx9", "gfx8", "gfx11", "gfx12", "gfx12", "generic"], [
        family_of(name)
        for name in ["gfx90a", "gfx942", "gfx803", "gfx1100", "gfx1250", "gfx1250-strict", "gfx9-4-generic"]
    ])
    return unittest.end(env)

answers_test = unittest.make(_answers_test_impl)

def _assumed_test_impl(ctx):
    env = unittest.begin(ctx)
    amd = {"vendor": "amd"}
    for release, facts, key, want in [
        (22, {}, "lto_hip", "none"),
        (23, {}, "lto_hip", "full"),
        (0, {}, "lto_hip", "full"),
        # ROCm 7.14 is clang 23 without it, ROCm 10.1 is clang 24 with it.
        (23, amd, "lto_hip", "none"),
        (24, amd, "lto_hip_rdc", "full"),
        (24, {}, "lto_hip_device", "none"),
        (23, {"lto_hip": "none"}, "lto_hip", "none"),
        (21, {}, "link_flags", "-plugin-opt=-amdgpu-internalize-symbols --lto-partitions=8"),
        (17, {}, "link_flags", "-plugin-opt=-amdgpu-internalize-symbols"),
        (23, {}, "link_flags", ""),
        (24, {}, "instruction_sets", "yes"),
        (23, {}, "instruction_sets", "no"),
    ]:
        asserts.equals(env, want, fact(struct(facts = facts, release = release), key), "{} of {} {}".format(key, release, facts))
    asserts.equals(
        env,
        "AMD clang version 23.0.0; the driver answers or the toolchain declares: lto_hip = none, vendor = amd; assumed by its release: " +
        "instruction_sets = no, lto_hip_device = none, lto_hip_device_rdc = none, lto_hip_rdc = none, lto_openmp = none",
        describe_facts(struct(facts = amd | {"lto_hip": "none", "version": "AMD clang version 23.0.0"}, release = 23)),
    )
    return unittest.end(env)

assumed_test = unittest.make(_assumed_test_impl)

# A compiler of unknown release, see BUILD.bazel.
_asked_test = actions_test_with({"//command_line_option:extra_toolchains": "//tests/analysis:asked_toolchain"})

def _message_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.expect_failure(env, ctx.attr.message)
    return analysistest.end(env)

_message_test = analysistest.make(
    _message_test_impl,
    attrs = {"message": attr.string(mandatory = True)},
    config_settings = {"//command_line_option:extra_toolchains": str(Label("//tests/analysis:asked_toolchain"))},
    expect_failure = True,
)

def compiler_facts_tests(name):
    """Tests of facts.

    Args:
      name: what the tests begin with.
    """
    unittest.suite(name, answers_test, assumed_test)
    for rdc in [False, True]:
        hip_library(
            name = "facts_hip" + ("_rdc" if rdc else ""),
            srcs = ["a.hip"],
            offload_archs = ["gfx942", "gfx1201"],
            rdc = rdc,
            tags = ["manual"],
        )
    hip_code_objects(
        name = "facts_objects",
        srcs = ["a.hip"],
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    openmp_library(
        name = "facts_openmp",
        srcs = ["a.c"],
        offload_archs = ["gfx942", "gfx1201"],
        tags = ["manual"],
    )
    for portable, linkopts in [("facts_portable", []), ("facts_backend", ["-use-spirv-backend"])]:
        hip_code_objects(
            name = portable,
            srcs = ["a.hip"],
            arch_linkopts = {"amdgcnspirv": linkopts},
            offload_archs = ["amdgcnspirv"],
            tags = ["manual"],
        )
    for case, mnemonic, target, output, argv, others in [
        ("none", "OffloadHipCompile", "hip", "gfx942/a.o", ["-emit-obj"], ["-foffload-lto=full"]),
        ("family", "OffloadHipCompile", "hip", "gfx1201/a.bc", ["-foffload-lto=full"], ["-emit-obj"]),
        ("rdc", "OffloadHipCompile", "hip_rdc", "gfx942/a.bc", ["-foffload-lto=full"], []),
        ("link", "OffloadDeviceLink", "hip_rdc", "gfx942.co", ["-flto -Wl,--lto-partitions=2 -Wl,-plugin-opt=-my-option"], ["-Wl,-plugin-opt=-amdgpu-internalize-symbols"]),
        ("objects", "OffloadHipCompile", "objects", "gfx942/a.o", ["-fgpu-rdc", "-S -Xclang -emit-obj -fno-offload-lto"], ["-emit-llvm"]),
        ("objects_link", "OffloadDeviceLink", "objects", "gfx942.co", ["-o BIN/tests/analysis/facts_objects/gfx942.co BIN/tests/analysis/facts_objects/gfx942/a.o"], ["-flto"]),
        ("openmp_objects", "OffloadOpenMpCompile", "openmp", "gfx1201/a.o", ["-c"], ["-emit-llvm", "-flto=full"]),
        ("openmp", "OffloadOpenMpCompile", "openmp", "gfx942/a.bc", ["-triple -Xclang amdgpu9.42-amd-amdhsa", "-Xclang -mcode-object-version=5 -mllvm --amdhsa-code-object-version=5"], []),
        ("backend", "OffloadDeviceLink", "backend", "amdgcnspirv.spv", ["-use-spirv-backend"], []),
    ]:
        _asked_test(
            name = "{}_{}_test".format(name, case),
            size = "small",
            argv = argv,
            mnemonic = mnemonic,
            not_in_argv = others,
            output = "facts_{}/{}".format(target, output),
            target_under_test = "facts_" + target,
        )
    _message_test(
        name = name + "_translator_test",
        size = "small",
        message = "//tests/analysis:facts_portable: amdgcnspirv: the device compiler makes SPIR-V with the translator llvm-spirv, which it does not find: install it",
        target_under_test = "facts_portable",
    )
    failure_test(
        name = name + "_unknown_test",
        clang = "clang.sh",
        facts = {"lto": "none"},
        message = "offload_device_toolchain: facts: found \"lto\", expected one of code_object_version, ",
        rule = offload_device_toolchain,
    )
