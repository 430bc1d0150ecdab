"""The program in one configuration for each execution platform."""

# The settings that tests and targets of this repository change, with their default values. Go packages below would be
# built again for each combination.
_DEFAULTS = {
    "//command_line_option:collect_code_coverage": False,
    "//command_line_option:copt": [],
    "//command_line_option:cxxopt": [],
    "//command_line_option:features": [],
    "//command_line_option:linkopt": [],
    "//rules/settings:binary_version": 1,
    "//rules/settings:bundle_version": 3,
    "//rules/settings:compress": "auto",
    "//rules/settings:compression_level": "fast",
    "//rules/settings:cuda": True,
    "//rules/settings:device_compiler": "",
    "//rules/settings:gpu": True,
    "//rules/settings:hip": True,
    "//rules/settings:incremental": "auto",
    "//rules/settings:offload_arch": "",
    "//rules/settings:offload_archs": [],
    "//rules/settings:openmp": True,
    "//rules/settings:track_headers": True,
    "//rules/settings:validation": True,
    "@rules_go//go/config:debug": False,
    "@rules_go//go/config:gc_goopts": [],
    "@rules_go//go/config:gc_linkopts": [],
    "@rules_go//go/config:linkmode": "auto",
    "@rules_go//go/config:msan": False,
    "@rules_go//go/config:pure": True,
    "@rules_go//go/config:race": False,
    "@rules_go//go/config:static": True,
    "@rules_go//go/config:tags": [],
}

_reset = transition(
    implementation = lambda _settings, _attr: _DEFAULTS,
    inputs = [],
    outputs = _DEFAULTS.keys(),
)

def _one_configuration_impl(ctx):
    program = ctx.executable.program
    out = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(is_executable = True, output = out, target_file = program)
    return [DefaultInfo(executable = out, files = depset([out]), runfiles = ctx.runfiles([program]))]

one_configuration = rule(
    implementation = _one_configuration_impl,
    doc = "A program that is built once for each execution platform, whatever the settings of the targets that use it.",
    attrs = {
        "program": attr.label(executable = True, mandatory = True, cfg = "target", doc = "The program."),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    cfg = _reset,
    executable = True,
)
