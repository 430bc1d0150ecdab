"""Analysis tests of hip_binary and hip_test: which target gets an attribute, with selects, and the resources of tests."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@rules_cc//cc:defs.bzl", "cc_library")
load("//rules:defs.bzl", "hip_binary", "hip_test")
load(":testing.bzl", "actions_test")

_RESOURCE = str(Label("//rules/settings:gpu_resource"))

def _resources_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    requirements = target[testing.ExecutionInfo].requirements if testing.ExecutionInfo in target else {}
    asserts.equals(env, {resource: "" for resource in ctx.attr.resources}, requirements)
    asserts.equals(env, ctx.attr.environment, target[RunEnvironmentInfo].environment)
    asserts.equals(env, ctx.attr.inherited, target[RunEnvironmentInfo].inherited_environment)
    return analysistest.end(env)

_ATTRS = {
    "environment": attr.string_dict(),
    "inherited": attr.string_list(),
    "resources": attr.string_list(),
}
_resources_test = analysistest.make(_resources_test_impl, attrs = _ATTRS)
_other_resource_test = analysistest.make(_resources_test_impl, attrs = _ATTRS, config_settings = {_RESOURCE: "mi300"})
_no_resource_test = analysistest.make(_resources_test_impl, attrs = _ATTRS, config_settings = {_RESOURCE: ""})

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.expect_failure(env, ctx.attr.message)
    return analysistest.end(env)

_failure_test = analysistest.make(_failure_test_impl, attrs = {"message": attr.string()}, expect_failure = True)

def _either(value, other):
    """A select with two branches."""
    return select({":gpu_branch": other, "//conditions:default": value})

# Each attribute that can have a select, of one kind of target each, with a value for its branches.
_OF_BOTH = {
    "additional_linker_inputs": (["a.h"], []),
    "alwayslink": (True, False),
    "args": (["--quick"], []),
    "compress": ("none", "zstd"),
    "copts": (["-DSELECTED"], []),
    "data": (["index.dat"], []),
    "defines": (["SELECTED_DEFINE"], []),
    "deps": ([":gpu_dep"], []),
    "device_copts": (["-DDEVICE_SELECTED"], []),
    "env": ({"SELECTED": "$(rootpath index.dat)"}, {"SELECTED": ""}),
    "exec_properties": ({"Pool": "run"}, {"Pool": "other"}),
    "hdrs": (["a.h"], []),
    "host_copts": (["-DHOST_SELECTED"], []),
    "library_exec_properties": ({"compile.Pool": "compile", "link.Pool": "link"}, {}),
    "linkopts": (["-Wl,--version-script=$(location a.h)"], []),
    "linkstatic": (True, False),
    "offload_archs": (["gfx942"], ["gfx90a"]),
    "srcs": (["a.hip"], ["a.cu"]),
    "target_compatible_with": ([], ["@platforms//:incompatible"]),
}
_OF_TEST = {
    "env_inherit": (["HOME"], []),
    "exec_properties": ({"Pool": "run", "test.Pool": "mi300"}, {"test.Pool": "other"}),
    "gpu_resource": ("mi300", "mi200"),
    "gpus": (2, 1),
    "shard_count": (2, 4),
}

def _selected(attributes):
    return {name: _either(*values) for name, values in attributes.items()}

def hip_programs_tests(name):
    """Attributes of hip_binary and hip_test.

    Args:
      name: name of the test suite.
    """
    native.config_setting(name = "gpu_branch", define_values = {"gpu": "other"})
    cc_library(name = "gpu_dep", hdrs = ["a.h"], tags = ["manual"])
    hip_binary(name = "selected_binary", tags = ["manual"], **_selected(_OF_BOTH))
    hip_test(name = "selected_gpu_test", size = "small", tags = ["manual"], **_selected(_OF_BOTH | _OF_TEST))
    tests = []
    for program, linked in [("selected_binary", "selected_binary"), ("selected_gpu_test", "selected_gpu_test_program")]:
        actions_test(
            name = program + "_compile_test",
            argv = ["-DSELECTED", "-DHOST_SELECTED", "-DSELECTED_DEFINE"],
            mnemonic = "OffloadHipHostCompile",
            output = program + "_hip/host/a.o",
            target = program + "_hip",
        )
        actions_test(
            name = program + "_link_test",
            argv = ["-Wl,--version-script=tests/analysis/a.h"],
            inputs = ["tests/analysis/a.h"],
            mnemonic = "CppLink",
            output = linked,
            system_tool = True,
            target = linked,
        )
        tests.extend([program + "_compile_test", program + "_link_test"])

    hip_test(name = "plain_gpu_test", size = "small", srcs = ["a.hip"], offload_archs = ["gfx942"], tags = ["manual"])
    hip_test(name = "two_gpu_test", size = "small", srcs = ["a.hip"], gpu_resource = "mi200", gpus = 2, offload_archs = ["gfx942"], tags = ["manual"])
    for test, rule, target, resources, environment, inherited in [
        ("plain", _resources_test, "plain_gpu_test", ["resources:gpu:1"], {"OFFLOAD_GPUS": "1"}, []),
        ("setting", _other_resource_test, "plain_gpu_test", ["resources:mi300:1"], {"OFFLOAD_GPUS": "1"}, []),
        ("none", _no_resource_test, "plain_gpu_test", [], {"OFFLOAD_GPUS": "1"}, []),
        ("two", _other_resource_test, "two_gpu_test", ["resources:mi200:2"], {"OFFLOAD_GPUS": "2"}, []),
        ("selected", _resources_test, "selected_gpu_test", ["resources:mi300:2"], {"OFFLOAD_GPUS": "2", "SELECTED": "tests/analysis/index.dat"}, ["HOME"]),
    ]:
        rule(
            name = "gpu_resources_{}_test".format(test),
            size = "small",
            environment = environment,
            inherited = inherited,
            resources = resources,
            target_under_test = target,
        )
        tests.append("gpu_resources_{}_test".format(test))
    for case, kwargs, message in [
        ("count", {"gpus": 0}, "gpus is 0, expected at least 1"),
        ("resource", {"gpu_resource": "gpu:1"}, "the resource of GPUs is \"gpu:1\", expected a name without colons and spaces, as in --local_resources=gpu=8"),
    ]:
        target = "gpu_{}_test".format(case)
        hip_test(name = target, srcs = ["a.hip"], offload_archs = ["gfx942"], tags = ["manual"], **kwargs)
        _failure_test(
            name = "gpu_wrong_{}_test".format(case),
            size = "small",
            message = "//tests/analysis:{}: {}".format(target, message),
            target_under_test = target,
        )
        tests.append("gpu_wrong_{}_test".format(case))
    native.test_suite(
        name = name,
        tests = tests,
    )
