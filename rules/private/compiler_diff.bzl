"""offload_compiler_diff compares what two compilers, or two sets of flags, make of the same targets."""

load(":device_link.bzl", "RECORD_SUFFIX")
load(":messages.bzl", "name_of", "place")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":report.bzl", "KERNEL_LIMITS", "PAGE_SCRIPT", "PROGRAM_ATTRIBUTES", "check_limits", "program_dependencies")

_COMPILER = "//rules/settings:device_compiler"
_COPTS = "//rules/settings:device_copts"
_LTO = "//rules/settings:lto"
_RECORDS = "//rules/settings:optimization_records"
_SETTINGS = [_COMPILER, _COPTS, _LTO, _RECORDS]

# The flags that offload diff --suggest tries, by their names. Instead of those of no-lto, which clang's driver needs, the build
# has another value of the setting.
_NO_LTO = "no-lto"
SUGGESTED_COPTS = {
    "O2": ["-O2"],
    "inline-less": ["-mllvm", "-inline-threshold=100"],
    _NO_LTO: [],
    "no-unroll": ["-fno-unroll-loops"],
    "schedule-for-occupancy": ["-mllvm", "-amdgpu-schedule-metric-bias=100"],
    "unroll-arrays-less": ["-mllvm", "-amdgpu-unroll-threshold-private=500"],
    "unroll-less": ["-mllvm", "-unroll-threshold=100"],
}

_OLD = "old"
_NEW = "new"
_TRIED = "tried_"

def _builds(settings, attr):
    """Returns the settings of each build of the targets."""
    builds = {
        side: {
            _COMPILER: getattr(attr, side + "_compiler") or settings[_COMPILER],
            _COPTS: settings[_COPTS] + getattr(attr, side + "_copts"),
            _LTO: getattr(attr, side + "_lto") or settings[_LTO],
            _RECORDS: attr.remarks,
        }
        for side in [_OLD, _NEW]
    }
    for name in attr.suggest:
        build = dict(builds[_NEW])
        build[_COPTS] = build[_COPTS] + SUGGESTED_COPTS.get(name, [])
        if name == _NO_LTO:
            build[_LTO] = "none"
        build[_RECORDS] = False
        builds[_TRIED + name] = build
    return builds

_both = transition(
    implementation = _builds,
    inputs = _SETTINGS,
    outputs = _SETTINGS,
)

_RecordsInfo = provider(
    doc = "Optimization records.",
    fields = {"records": "Depset of Files, those of a target and of all targets that its programs include."},
)

def _records_impl(target, ctx):
    own = [file for action in target.actions for file in action.outputs.to_list() if file.basename.endswith(RECORD_SUFFIX)]
    below = [dep[_RecordsInfo].records for dep in program_dependencies(ctx.rule) if _RecordsInfo in dep]
    return [_RecordsInfo(records = depset(own, transitive = below))]

_records_aspect = aspect(
    implementation = _records_impl,
    attr_aspects = PROGRAM_ATTRIBUTES,
)

def _files(targets):
    return depset(transitive = [target[DefaultInfo].files for target in targets])

def _records(targets):
    return depset(transitive = [target[_RecordsInfo].records for target in targets])

def _compare(ctx, suffix, tried):
    """Registers the action that compares the builds, and returns its outputs by their formats."""
    old, new = [ctx.split_attr.srcs[side] for side in [_OLD, _NEW]]
    inputs = [_files(old), _files(new), _records(old), _records(new), depset(ctx.files.accepted)]
    outputs = {
        format: ctx.actions.declare_file(ctx.label.name + suffix + extension)
        for format, extension in [("html", ".html"), ("markdown", ".md"), ("output", ".json"), ("message", ".message")]
    }
    args = offload_arguments(ctx, "diff")
    for format, file in outputs.items():
        args.add(file, format = "--{}=%s".format(format))
    args.add_all(inputs[0], format_each = "--old=%s")
    args.add_all(inputs[1], format_each = "--new=%s")
    args.add_all(inputs[2], format_each = "--old-remarks=%s")
    args.add_all(inputs[3], format_each = "--new-remarks=%s")
    args.add_joined(ctx.attr.fail_on, format_joined = "--fail-on=%s", join_with = ",")
    args.add_all(["{}={}".format(value, change) for value, change in ctx.attr.tolerances.items()], format_each = "--tolerance=%s")
    if ctx.attr.max_growth:
        args.add(ctx.attr.max_growth, format = "--max-growth=%s")
    args.add_all(ctx.files.accepted, format_each = "--accepted=%s")
    for name in tried:
        files = _files(ctx.split_attr.srcs[_TRIED + name])
        args.add_all(files, format_each = "--tried={}=%s".format(name))
        inputs.append(files)
    run_offload(
        ctx,
        arguments = [args],
        coding = True,
        inputs = depset(transitive = inputs),
        mnemonic = "OffloadCompilerDiff",
        outputs = outputs.values(),
        progress_message = "Comparing the builds of %{label}",
    )
    return outputs

def _check(ctx, where):
    sides = [[getattr(ctx.attr, side + suffix) for suffix in ["_compiler", "_copts", "_lto"]] for side in [_OLD, _NEW]]
    if sides[0] == sides[1]:
        fail("{}: the builds are equal: set old_compiler and new_compiler, or the attributes for lto or copts".format(where))
    check_limits(ctx.attr.fail_on, where)
    for value in ctx.attr.tolerances:
        if value not in KERNEL_LIMITS:
            fail("{}: tolerances: found {}, expected one of {}".format(where, repr(value), ", ".join(KERNEL_LIMITS)))
    limited = ctx.attr.fail_on or ctx.attr.tolerances or ctx.attr.max_growth
    for attribute in ["accepted", "suggest"]:
        if getattr(ctx.attr, attribute) and not limited:
            fail("{}: {} requires limits: set fail_on, tolerances or max_growth".format(where, attribute))
    for name in ctx.attr.suggest:
        if name not in SUGGESTED_COPTS:
            fail("{}: suggest: found {}, expected a list of {}".format(where, repr(name), ", ".join(SUGGESTED_COPTS)))

def _compiler_diff_impl(ctx):
    where = place(ctx, "offload_compiler_diff")
    _check(ctx, where)
    if not ctx.attr.srcs:
        fail("{}: srcs is empty: name programs, libraries or code objects to compare".format(where))
    for side in [_OLD, _NEW]:
        if not _files(ctx.split_attr.srcs[side]):
            fail("{}: srcs: {} have no files to compare; name the programs and libraries".format(
                where,
                ", ".join([name_of(target.label) for target in ctx.split_attr.srcs[side]]),
            ))
    outputs = _compare(ctx, "", [])
    tried = _compare(ctx, ".suggest", ctx.attr.suggest) if ctx.attr.suggest else {}
    script = ctx.actions.declare_file(ctx.label.name + ".page.sh")
    ctx.actions.write(script, PAGE_SCRIPT.format(page = outputs["html"].short_path, workspace = ctx.workspace_name), is_executable = True)
    reports = [outputs[format] for format in ["html", "markdown", "output"]]
    return [
        DefaultInfo(
            executable = script,
            files = depset(reports),
            runfiles = ctx.runfiles([outputs["html"]]),
        ),
        OutputGroupInfo(
            html = depset([outputs["html"]]),
            json = depset([outputs["output"]]),
            markdown = depset([outputs["markdown"]]),
            message = depset([outputs["message"]]),
            suggest = depset(tried.values()),
        ),
    ]

_offload_compiler_diff = rule(
    implementation = _compiler_diff_impl,
    attrs = {
        "accepted": attr.label(allow_single_file = True),
        "fail_on": attr.string_list(),
        "max_growth": attr.string(),
        "new_compiler": attr.string(),
        "new_copts": attr.string_list(),
        "new_lto": attr.string(),
        "old_compiler": attr.string(),
        "old_copts": attr.string_list(),
        "old_lto": attr.string(),
        "remarks": attr.bool(default = True),
        "srcs": attr.label_list(
            aspects = [_records_aspect],
            cfg = _both,
            mandatory = True,
        ),
        "suggest": attr.string_list(),
        "tolerances": attr.string_dict(),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    executable = True,
)

# Prints the message and fails, unless it is empty. The message is a runfile.
_TEST = """#!/bin/sh
message='{message}'
[ -e "$message" ] || message="${{RUNFILES_DIR:-$0.runfiles}}/{workspace}/$message"
[ -e "$message" ] || {{ echo "$message: no such file" >&2; exit 1; }}
[ -s "$message" ] || exit 0
cat "$message"
echo 'For the report, run: bazel run {label}'
exit 1
"""

def _compiler_diff_test_impl(ctx):
    diff = ctx.attr.diff
    message = diff[OutputGroupInfo].message.to_list()[0]
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, _TEST.format(
        label = name_of(diff.label),
        message = message.short_path,
        workspace = ctx.workspace_name,
    ), is_executable = True)
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles([message]))]

_compiler_diff_test = rule(
    implementation = _compiler_diff_test_impl,
    attrs = {
        "diff": attr.label(mandatory = True),
    },
    test = True,
)

# Attributes that all rules have, which the test gets as well.
_COMMON = ["compatible_with", "exec_compatible_with", "features", "restricted_to", "tags", "target_compatible_with", "visibility"]

def offload_compiler_diff(
        name,
        srcs,
        old_compiler = "",
        new_compiler = "",
        old_lto = "",
        new_lto = "",
        old_copts = [],
        new_copts = [],
        fail_on = [],
        tolerances = {},
        max_growth = "",
        accepted = None,
        suggest = [],
        remarks = True,
        **kwargs):
    """Builds the same targets twice, with two compilers, with and without LTO, or with two sets of flags, and compares their kernels.

    Kernels are paired by architecture and name. The report is a page, Markdown and JSON: registers, spills, scratch, occupancy
    and code size of each kernel that differs, added and removed kernels, exceeded limits, and for kernels that became worse the
    remarks of both compilers. With limits, the test `NAME_test` fails if they are exceeded. See [Upgrade ROCm](../howto/upgrade.md).

    <!-- not run: needs two compilers; tests/compilers builds such a target. -->
    ```starlark
    offload_compiler_diff(
        name = "upgrade",
        srcs = ["//app", "//math:kernels"],
        accepted = "accepted.txt",
        fail_on = ["scratch", "vgpr-spills", "occupancy"],
        new_compiler = "rocm_7_1",
        old_compiler = "rocm_7_0",
        tolerances = {"vgprs": "8", "code-size": "5%"},
    )
    ```

    `bazel run` of the target builds the page and prints its address.

    Default outputs: `NAME.html`, `NAME.md` and `NAME.json`, with the fields of [`offload diff`](../json.md#offload-diff).

    Output groups: `html`, `markdown` and `json`; `message`, the message of the test; `suggest`, the reports with the results of `suggest`.

    Args:
      name: name of the target.
      srcs: programs, libraries, code objects and bundles to build and compare. Their default outputs must contain the device
        code.
      old_compiler: name of a registered compiler in the setting `//rules/settings:device_compiler`, for the old build. If empty,
        the value of the setting.
      new_compiler: name of the compiler for the new build. If empty, the value of the setting.
      old_lto: link-time optimization of device code in the old build: `none` or `full`, as in the setting `//rules/settings:lto`.
        If empty, the value of the setting. It does not change targets that set `lto`.
      new_lto: link-time optimization in the new build.
      old_copts: additional compiler flags for device code in the old build, one word each, after those of the targets.
      new_copts: additional compiler flags for device code in the new build.
      fail_on: changes that fail the test: `spills`, `sgpr-spills`, `vgpr-spills`, `scratch`, `occupancy`, `vgprs`, `agprs`,
        `sgprs`, `lds` and `code-size` for kernels that became worse, `removed-kernels`, and `removed-archs`.
      tolerances: from a value of `fail_on` to the change of a kernel that the test permits: a number or a percentage. A value in
        this dict need not be in `fail_on`.
      max_growth: maximum growth of the images of an architecture: a percentage such as `5%`, or a size such as `64KiB`.
      accepted: a text file with accepted differences. Each line is `RULE ARCH KERNEL CHANGE`, as in the message of the test. A
        line that accepts nothing fails the test.
      suggest: names of flags to try in the new build: `O2`, `inline-less`, `no-lto`, `no-unroll`, `schedule-for-occupancy`,
        `unroll-arrays-less` and `unroll-less`. The output group `suggest` builds the targets once with each of them, and reports
        which remove an exceeded limit and make no kernel worse. Other builds do not run these compilations.
      remarks: whether both builds write optimization records, from which the report takes remarks.
      **kwargs: attributes that all rules have, such as `visibility`.
    """
    _offload_compiler_diff(
        name = name,
        accepted = accepted,
        fail_on = fail_on,
        max_growth = max_growth,
        new_compiler = new_compiler,
        new_copts = new_copts,
        new_lto = new_lto,
        old_compiler = old_compiler,
        old_copts = old_copts,
        old_lto = old_lto,
        remarks = remarks,
        srcs = srcs,
        suggest = suggest,
        tolerances = tolerances,
        **kwargs
    )
    if fail_on or tolerances or max_growth:
        _compiler_diff_test(
            name = name + "_test",
            size = "small",
            diff = name,
            **{attribute: value for attribute, value in kwargs.items() if attribute in _COMMON}
        )
