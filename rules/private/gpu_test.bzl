"""gpu_test runs a program as a test that requires GPUs."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":flags.bzl", "expand_path")
load(":messages.bzl", "name_of")

# The number of GPUs of a test, for programs that select them.
_GPUS_VARIABLE = "OFFLOAD_GPUS"

_NOT_IN_RESOURCES = ": "

def _gpu_test_impl(ctx):
    if ctx.attr.gpus < 1:
        fail("{}: gpus is {}, expected at least 1".format(name_of(ctx.label), ctx.attr.gpus))
    resource = ctx.attr.gpu_resource or ctx.attr._gpu_resource[BuildSettingInfo].value
    if [c for c in resource.elems() if c in _NOT_IN_RESOURCES]:
        fail("{}: the resource of GPUs is {}, expected a name without colons and spaces, as in --local_resources=gpu=8".format(name_of(ctx.label), repr(resource)))
    program = ctx.executable.program
    out = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(is_executable = True, output = out, target_file = program)
    runfiles = ctx.runfiles(ctx.files.data + [program]).merge_all(
        [dep[DefaultInfo].default_runfiles for dep in ctx.attr.data + [ctx.attr.program]],
    )
    environment = {name: expand_path(ctx, "env", value) for name, value in ctx.attr.env.items()}
    return [
        DefaultInfo(executable = out, files = depset([out]), runfiles = runfiles),
        RunEnvironmentInfo(
            environment = {_GPUS_VARIABLE: str(ctx.attr.gpus)} | environment,
            inherited_environment = ctx.attr.env_inherit,
        ),
        coverage_common.instrumented_files_info(ctx, dependency_attributes = ["data", "program"]),
    ] + ([testing.ExecutionInfo({"resources:{}:{}".format(resource, ctx.attr.gpus): ""})] if resource else [])

gpu_test = rule(
    implementation = _gpu_test_impl,
    doc = """A test that runs a program on GPUs.

It is a target of its own, so that its tags and properties do not apply to the compilations and links of the program.
""",
    attrs = {
        "data": attr.label_list(allow_files = True, doc = "Files that the test requires at run time."),
        "env": attr.string_dict(doc = "Environment variables of the test, with `$(location)` of `data` and Make variables."),
        "env_inherit": attr.string_list(doc = "Environment variables that the test gets from the environment of Bazel."),
        "gpu_resource": attr.string(doc = "Name of the resource that stands for GPUs; by default, that of the setting."),
        "gpus": attr.int(default = 1, doc = "Number of GPUs that the test uses at a time."),
        "program": attr.label(cfg = "target", doc = "The program.", executable = True, mandatory = True),
        "_collect_cc_coverage": attr.label(
            cfg = "exec",
            default = "@bazel_tools//tools/test:collect_cc_coverage",
            executable = True,
        ),
        "_gpu_resource": attr.label(default = "//rules/settings:gpu_resource"),
        "_lcov_merger": attr.label(
            cfg = "exec",
            default = configuration_field(fragment = "coverage", name = "output_generator"),
            executable = True,
        ),
    },
    fragments = ["coverage"],
    test = True,
)
