"""An aspect that finds the device code of a target, and a rule that reports it."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadBinaryInfo", "OffloadBundleInfo", "OffloadDeviceCodeInfo", "OffloadImagesInfo")
load(":messages.bzl", "name_of", "place")
load(":processor_names.bzl", "check_processor")
load(":program.bzl", "BUNDLE_GROUP", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":settings.bzl", "SETTINGS_ATTRS", "settings_of")

# The attributes through which programs include code. They do not include tools.
PROGRAM_ATTRIBUTES = [
    "_implicit_tests",
    "actual",
    "base",
    "binary",
    "bundle",
    "bundles",
    "cdeps",
    "data",
    "deps",
    "device_deps",
    "dynamic_deps",
    "embed",
    "files",
    "image",
    "images",
    "implementation_deps",
    "layer",
    "layers",
    "manifests",
    "roots",
    "runtime_deps",
    "shared_library",
    "src",
    "srcs",
    "static_library",
    "tars",
    "targets",
    "test",
    "tests",
]

def program_dependencies(rule):
    """Returns the targets that a target includes in programs.

    Args:
      rule: `ctx.rule` of an aspect along `PROGRAM_ATTRIBUTES`.

    Returns:
      list of Targets.
    """
    found = []
    for name in PROGRAM_ATTRIBUTES:
        value = getattr(rule.attr, name, None)
        if type(value) == "dict":
            # Labels are keys, values, or elements of lists that are values.
            value = value.keys() + [
                dep
                for held in value.values()
                for dep in (held if type(held) == "list" else [held])
            ]
        elif type(value) != "list":
            value = [value]
        found.extend([dep for dep in value if type(dep) == "Target"])
    return found

def _entry_ids(target):
    """Returns the form and the entry IDs of the device code that a target itself produces."""
    if OffloadBundleInfo in target:
        return "bundle", target[OffloadBundleInfo].entry_ids
    if OffloadBinaryInfo in target:
        return "offload binary", [image.id for image in target[OffloadBinaryInfo].images.to_list()]
    if OffloadImagesInfo in target:
        return "images", [image.id for image in target[OffloadImagesInfo].images.to_list()]
    return None, []

def _aspect_impl(target, ctx):
    own = []
    dependencies = program_dependencies(ctx.rule)
    form, ids = _entry_ids(target)
    if form:
        own.append(struct(
            entry_ids = tuple(ids),
            form = form,
            label = target.label,
        ))
        if CcInfo not in target:
            # Dependents get the device code of its dependencies only in this form.
            dependencies = []
    return [OffloadDeviceCodeInfo(code = depset(
        own,
        order = "postorder",
        transitive = [
            dep[OffloadDeviceCodeInfo].code
            for dep in dependencies
            if OffloadDeviceCodeInfo in dep
        ],
    ))]

offload_device_code_aspect = aspect(
    implementation = _aspect_impl,
    doc = """Finds the targets whose device code a target depends on, directly or through any other rules.

To use it in your own rule, add it to an attribute: `attr.label_list(aspects = [offload_device_code_aspect])`. Each target in
the attribute then provides `OffloadDeviceCodeInfo`. If a target contains device code of others, such as a bundle, the
aspect reports that target and not the targets from which it was built.
""",
    attr_aspects = PROGRAM_ATTRIBUTES,
)

# Values of fail_on, which are those of offload diff --fail-on: for values of kernels, and others.
KERNEL_LIMITS = ["agprs", "code-size", "lds", "occupancy", "scratch", "sgpr-spills", "sgprs", "spills", "vgpr-spills", "vgprs"]
_RULES = KERNEL_LIMITS + ["removed-archs", "removed-kernels"]

def check_limits(fail_on, where):
    """Fails if a value of fail_on is unknown.

    Args:
      fail_on: list of strings.
      where: prefix of error messages, `label: rule`.
    """
    for rule in fail_on:
        if rule not in _RULES:
            fail("{}: fail_on: {} is not a limit, expected a list of {}".format(where, repr(rule), ", ".join(_RULES)))

def check_covers(covers, where):
    """Fails if a value of covers is not an AMD GPU.

    Args:
      covers: list of strings.
      where: prefix of error messages, `label: rule`.
    """
    for target_id in covers:
        check_processor(target_id, where + ": covers", kind = "")
        if not target_id.startswith("gfx"):
            fail("{}: covers: {} is not an AMD GPU, expected one such as gfx942 or gfx90a:xnack+".format(where, repr(target_id)))

# Prints the address of the page. The page is a runfile, which is a link to the file that Bazel built.
PAGE_SCRIPT = """#!/bin/sh
page='{page}'
[ -e "$page" ] || page="${{RUNFILES_DIR:-$0.runfiles}}/{workspace}/$page"
echo "file://$(readlink -f -- "$page")"
"""

_NO_FILES = """#!/bin/sh
echo '{label}: no page, because the targets have no files' >&2
exit 1
"""

def _report(ctx, files, base, format, out):
    """Registers the action that writes a report of files in one format."""
    args = offload_arguments(ctx, "report")
    args.add(out, format = "--{}=%s".format(format))
    args.add_all(base, format_each = "--base=%s")
    disassembler = depset()
    if ctx.executable.disassembler:
        args.add(ctx.executable.disassembler, format = "--disassembler=%s")
        info = ctx.attr.disassembler[DefaultInfo]
        disassembler = depset([ctx.executable.disassembler], transitive = [info.files, info.default_runfiles.files])
    args.add("--")
    args.add_all(files)
    run_offload(
        ctx,
        arguments = [args],
        coding = True,
        inputs = depset(transitive = [files, base, disassembler]),
        mnemonic = "OffloadReport",
        outputs = [out],
        progress_message = "Reporting the device code of %{label}",
    )

def _validate_growth(ctx, files, base):
    """Registers the action that compares files with older ones, and returns its outputs."""
    where = place(ctx, "offload_report")
    check_limits(ctx.attr.fail_on, where)
    if not ctx.attr.fail_on and not ctx.attr.max_growth:
        return []
    if not ctx.attr.base:
        fail("{}: {} requires base: name the older file to compare with".format(where, "fail_on" if ctx.attr.fail_on else "max_growth"))
    out = ctx.actions.declare_file(ctx.label.name + ".growth.json")
    args = offload_arguments(ctx, "report")
    args.add(out, format = "--json=%s")
    args.add_all(base, format_each = "--base=%s")
    args.add_joined(ctx.attr.fail_on, format_joined = "--fail-on=%s", join_with = ",")
    if ctx.attr.max_growth:
        args.add(ctx.attr.max_growth, format = "--max-growth=%s")
    args.add("--")
    args.add_all(files)
    run_offload(
        ctx,
        arguments = [args],
        coding = True,
        inputs = depset(transitive = [files, base]),
        mnemonic = "OffloadCheckGrowth",
        outputs = [out],
        progress_message = "Comparing the device code of %{label}",
    )
    return [out]

def _validate_coverage(ctx, files):
    """Registers the action that checks that the GPUs in covers have code, and returns its outputs."""
    if not ctx.attr.covers:
        return []
    check_covers(ctx.attr.covers, place(ctx, "offload_report"))
    out = ctx.actions.declare_file(ctx.label.name + ".covers.json")
    args = offload_arguments(ctx, "check")
    args.add_joined(ctx.attr.covers, format_joined = "--covers=%s", join_with = ",")
    args.add(out, format = "--output=%s")
    args.add("--")
    args.add_all(files)
    run_offload(
        ctx,
        arguments = [args],
        coding = True,
        inputs = files,
        mnemonic = "OffloadCheckCoverage",
        outputs = [out],
        progress_message = "Checking for which GPUs %{label} has code",
    )
    return [out]

def _offload_report_impl(ctx):
    code = depset(transitive = [target[OffloadDeviceCodeInfo].code for target in ctx.attr.srcs])
    labels = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(labels, json.encode_indent([
        {
            "code": [
                {
                    "entries": code.entry_ids,
                    "form": code.form,
                    "label": name_of(code.label),
                }
                for code in target[OffloadDeviceCodeInfo].code.to_list()
            ],
            "target": name_of(target.label),
        }
        for target in ctx.attr.srcs
    ], indent = "  ") + "\n")

    files = depset(transitive = [target[DefaultInfo].files for target in ctx.attr.srcs])
    base = depset(transitive = [target[DefaultInfo].files for target in ctx.attr.base])
    script = ctx.actions.declare_file(ctx.label.name + ".page.sh")
    if not files:
        # For example, a test suite has no files to report.
        if ctx.attr.base or ctx.attr.covers or ctx.attr.fail_on or ctx.attr.max_growth:
            fail("{}: srcs: {} have no files to check; name the programs and libraries".format(
                place(ctx, "offload_report"),
                ", ".join([name_of(target.label) for target in ctx.attr.srcs]) or "no targets",
            ))
        ctx.actions.write(script, _NO_FILES.format(label = name_of(ctx.label)), is_executable = True)
        return [
            DefaultInfo(
                executable = script,
                files = depset([labels]),
            ),
            OffloadDeviceCodeInfo(code = code),
            OutputGroupInfo(labels = depset([labels])),
        ]
    html, markdown, figures = [
        ctx.actions.declare_file(ctx.label.name + suffix)
        for suffix in [".html", ".md", ".kernels.json"]
    ]
    _report(ctx, files, base, "html", html)
    _report(ctx, files, base, "markdown", markdown)
    _report(ctx, files, base, "json", figures)
    checked = _validate_growth(ctx, files, base) + _validate_coverage(ctx, files)
    ctx.actions.write(script, PAGE_SCRIPT.format(page = html.short_path, workspace = ctx.workspace_name), is_executable = True)
    return [
        DefaultInfo(
            executable = script,
            files = depset([labels]),
            runfiles = ctx.runfiles([html]),
        ),
        OffloadDeviceCodeInfo(code = code),
        OutputGroupInfo(
            html = depset([html]),
            json = depset([figures]),
            labels = depset([labels]),
            markdown = depset([markdown]),
            _validation = depset(checked if settings_of(ctx).validation else []),
        ),
    ]

offload_report = rule(
    implementation = _offload_report_impl,
    doc = """Reports which targets contribute device code to programs, for which GPUs, and the contents of the built files.

The output is a JSON file, `NAME.json`, with the labels of the targets that produce device code. The provider
`OffloadDeviceCodeInfo` has the same information, which `bazel cquery` shows without a build. Output groups contain reports
of the built files:

| output group | file |
| --- | --- |
| `html` | `NAME.html`, a page with a map of the sizes and a table of all kernels |
| `markdown` | `NAME.md`, a summary for a code review comment |
| `json` | `NAME.kernels.json`, the images and kernels of each file |
| `labels` | `NAME.json` |

`bazel run` of the target builds the page and prints its address. See
[Which device code is in a program?](../howto/inspect.md#report)

```starlark
offload_report(
    name = "app_report",
    srcs = [":app"],
)
```

Default outputs: `NAME.json`, the labels of the targets that produce device code.

Output groups: `html`, `markdown`, `json` and `labels`, see above; `_validation`, the results of `covers`, `fail_on` and `max_growth`.
""",
    attrs = SETTINGS_ATTRS | {
        "base": attr.label_list(
            doc = "Older files, such as those of the last release, to compare with the files of `srcs`. The reports then include a section with the changes.",
            allow_files = True,
        ),
        "covers": attr.string_list(
            doc = "GPUs, such as `gfx942` and `gfx90a:xnack+`, that every file of `srcs` must have code for, by the rules of the HIP runtime. An unspecified feature stands for both of its states. A validation of the target checks this.",
        ),
        "disassembler": attr.label(
            doc = "An `llvm-objdump`, whose release knows the GPUs and their generic targets. If set, the reports list architectures whose images have equal instructions, the generic target that serves them, and the bytes that this saves.",
            allow_files = True,
            cfg = config.exec(BUNDLE_GROUP),
            executable = True,
        ),
        "fail_on": attr.string_list(
            doc = "Changes compared with `base` that fail the validation of the target: `spills`, `sgpr-spills`, `vgpr-spills`, `scratch`, `occupancy`, `vgprs`, `agprs`, `sgprs`, `lds` and `code-size` for kernels that became worse, `removed-kernels`, and `removed-archs`.",
        ),
        "max_growth": attr.string(
            doc = "Maximum growth of the images of an architecture compared with `base`: a percentage such as `5%`, or a size such as `64KiB`. A validation of the target checks this. If empty, the growth is not limited.",
        ),
        "srcs": attr.label_list(
            doc = "Programs, libraries, test suites, or other targets that depend on device code. Reports of the built files read the files of these targets.",
            mandatory = True,
            aspects = [offload_device_code_aspect],
        ),
    },
    exec_groups = PROGRAM_GROUPS,
    executable = True,
    provides = [OffloadDeviceCodeInfo],
)
