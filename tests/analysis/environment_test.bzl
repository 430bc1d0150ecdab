"""Analysis tests of what surrounds the rules: the program, platforms, releases of Bazel, libraries of ROCm."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("//rules:defs.bzl", "hip_code_objects", "hip_library", "openmp_library")
load("//rules/private:bazel_version.bzl", "has_multiplex_sandboxing")  # buildifier: disable=bzl-visibility
load("//rules/private:download.bzl", "reproducible")  # buildifier: disable=bzl-visibility
load("//rules/private:platforms.bzl", "host_constraints")  # buildifier: disable=bzl-visibility
load("//rules/private:rocm_library.bzl", "rocm_library")  # buildifier: disable=bzl-visibility
load("//rules/private:toolchains.bzl", "PROGRAM_TYPE", "TARGET_PROGRAM_TYPE")  # buildifier: disable=bzl-visibility
load(":subjects.bzl", "matchers")
load(":testing.bzl", "actions_test")

_ProgramInfo = provider(doc = "A program of a toolchain.", fields = {"path": "path of the program"})

def _program_impl(ctx):
    return [_ProgramInfo(path = ctx.toolchains[PROGRAM_TYPE].offload_program.executable.path)]

_program = rule(
    implementation = _program_impl,
    toolchains = [PROGRAM_TYPE],
)

# What targets and transitions above a target that runs the program can set.
_ABOVE = {
    "copts": {"//command_line_option:copt": ["-DX"]},
    "coverage": {"//command_line_option:collect_code_coverage": True},
    "features": {"//command_line_option:features": ["some_feature"]},
    "gfx90a": {"//rules/settings:offload_arch": "gfx90a", "//rules/settings:offload_archs": ["gfx90a"]},
    "gfx942": {"//rules/settings:offload_arch": "gfx942", "//rules/settings:offload_archs": ["gfx942"]},
    "mode": {"//command_line_option:compilation_mode": "dbg"},
    "nothing": {},
    "race": {"@rules_go//go/config:pure": False, "@rules_go//go/config:race": True},
    "tags": {"@rules_go//go/config:tags": ["some_tag"]},
    "zstd": {"//rules/settings:compress": "zstd", "//rules/settings:compression_level": "small"},
}
_SETTINGS = {setting: None for values in _ABOVE.values() for setting in values}.keys()

def _above_impl(settings, _attr):
    return {name: {setting: values.get(setting, settings[setting]) for setting in _SETTINGS} for name, values in _ABOVE.items()}

_above = transition(
    implementation = _above_impl,
    inputs = _SETTINGS,
    outputs = _SETTINGS,
)

def _one_program_test_impl(ctx):
    env = unittest.begin(ctx)
    paths = {program[_ProgramInfo].path: name for name, program in ctx.split_attr.program.items()}
    asserts.equals(env, len(_ABOVE), len(ctx.split_attr.program))
    asserts.equals(env, 1, len(paths), "the program is built in {} configurations: {}".format(len(paths), paths))
    return unittest.end(env)

_one_program_test = unittest.make(_one_program_test_impl, attrs = {
    "program": attr.label(cfg = _above, mandatory = True),
    "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
})

def _artifact_impl(ctx):
    return [_ProgramInfo(path = ctx.toolchains[TARGET_PROGRAM_TYPE].offload_program.executable.path)]

_artifact = rule(
    implementation = _artifact_impl,
    toolchains = [TARGET_PROGRAM_TYPE],
)

def _two_programs_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(env, "tests/analysis/target_program.sh", analysistest.target_under_test(env)[_ProgramInfo].path)
    return analysistest.end(env)

# For a target platform that is not an execution platform.
_two_programs_test = analysistest.make(_two_programs_test_impl, config_settings = {
    "//command_line_option:extra_toolchains": [str(Label("//tests/analysis:riscv_program_toolchain"))],
    "//command_line_option:platforms": str(Label("//tests/analysis:riscv")),
})

def _platforms_test_impl(ctx):
    env = unittest.begin(ctx)
    for name, arch, want in [
        ("linux", "amd64", ["os:linux", "cpu:x86_64"]),
        ("linux", "aarch64", ["os:linux", "cpu:aarch64"]),
        ("mac os x", "aarch64", ["os:macos", "cpu:aarch64"]),
        ("Mac OS X", "x86_64", ["os:macos", "cpu:x86_64"]),
        ("windows server 2022", "amd64", ["os:windows", "cpu:x86_64"]),
        ("freebsd", "amd64", [":incompatible"]),
        ("linux", "sparc", [":incompatible"]),
    ]:
        constraints = [constraint.partition("//")[2] for constraint in host_constraints(struct(arch = arch, name = name))]
        asserts.equals(env, want, constraints, "{} on {}".format(name, arch))
    return unittest.end(env)

_platforms_test = unittest.make(_platforms_test_impl)

def _releases_test_impl(ctx):
    env = unittest.begin(ctx)
    for version, want in {
        "": True,
        "10.0.0": True,
        "7.6.0": True,
        "8.0.0": False,
        "8.0.1": False,
        "8.1.0": False,
        "8.1.1": False,
        "8.10.0": True,
        "8.2.0": True,
        "8.7.0-pre.20260101.1": True,
        "9.0.0": True,
    }.items():
        asserts.equals(env, want, has_multiplex_sandboxing(version), version)

    # Bazel before 8.3 has no repo_metadata.
    asserts.equals(env, None, reproducible(struct()))
    asserts.equals(env, {"reproducible": True}, reproducible(struct(repo_metadata = lambda **kwargs: kwargs)))
    return unittest.end(env)

_releases_test = unittest.make(_releases_test_impl)

def _matchers_test_impl(ctx):
    env = unittest.begin(ctx)
    argv = ["clang", "-x", "hip", "-std=c++20", "-Iinclude", "a b"]
    for flag, value, want in [("-x", "hip", True), ("-std", "c++20", True), ("-I", "include", True), ("-x", "c++", False), ("-std", "c++2", False), ("-x", "-std=c++20", False)]:
        asserts.equals(env, want, matchers.has_value(argv, flag, value), "{} {}".format(flag, value))
    for args, want in [(["-x", "a b"], True), (["clang"], True), (["a b", "-x"], False), (["-x", "-x"], False)]:
        asserts.equals(env, want, matchers.in_order(argv, args), str(args))
    for args, want in [(["hip", "-std=c++20"], 1), (["a b"], 1), (["a"], 0), (["-x", "-std=c++20"], 0)]:
        asserts.equals(env, want, matchers.count(argv, args), str(args))
    asserts.equals(env, 2, matchers.count(argv + argv, ["-x", "hip"]))
    return unittest.end(env)

_matchers_test = unittest.make(_matchers_test_impl)

def _data_test_impl(ctx):
    env = analysistest.begin(ctx)
    runfiles = analysistest.target_under_test(env)[DefaultInfo].default_runfiles.files.to_list()
    asserts.equals(env, ["Kernels_gfx942.co", "index.dat"], sorted([file.basename for file in runfiles]))
    return analysistest.end(env)

_data_test = analysistest.make(_data_test_impl, config_settings = {str(Label("//rules/settings:offload_archs")): ["mi300"]})

def environment_tests(name):
    """What surrounds the rules.

    Args:
      name: name of the test suite.
    """
    _program(name = "program_of_actions", tags = ["manual"])
    _one_program_test(name = "one_program_test", size = "small", program = ":program_of_actions")
    _artifact(name = "program_for_target", tags = ["manual"])
    _two_programs_test(name = "two_programs_test", size = "small", target_under_test = ":program_for_target")
    _platforms_test(name = "platforms_test", size = "small")
    _matchers_test(name = "matchers_test", size = "small")
    _releases_test(name = "bazel_releases_test", size = "small")

    rocm_library(
        name = "library_with_data",
        data = ["Kernels_gfx90a.co", "Kernels_gfx942.co", "index.dat"],
        tags = ["manual"],
    )
    _data_test(name = "data_of_group_test", size = "small", target_under_test = ":library_with_data")

    hip_code_objects(name = "repository_code", srcs = ["a.hip"], offload_archs = ["gfx942"], tags = ["manual"])
    hip_library(name = "repository_library", srcs = ["a.hip"], offload_archs = ["gfx942"], tags = ["manual"])
    openmp_library(name = "repository_openmp", srcs = ["a.c"], offload_archs = ["gfx942"], tags = ["manual"])
    tests = []
    for target, mnemonic, output in [
        ("repository_code", "OffloadHipCompile", "repository_code/gfx942/a.o"),
        ("repository_library", "OffloadHipCompile", "repository_library/gfx942/a.o"),
        ("repository_library", "OffloadHipHostCompile", "repository_library/host/a.o"),
        ("repository_openmp", "OffloadOpenMpHostCompile", "repository_openmp/host/a.bc"),
    ]:
        test = "{}_{}_test".format(target, mnemonic.lower())
        actions_test(
            name = test,
            argv = ["-DBAZEL_CURRENT_REPOSITORY=\"\""],
            mnemonic = mnemonic,
            output = output,
            target = target,
        )
        tests.append(test)
    native.test_suite(
        name = name,
        tests = tests + ["bazel_releases_test", "data_of_group_test", "matchers_test", "one_program_test", "platforms_test", "two_programs_test"],
    )
