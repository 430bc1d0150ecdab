"""What device code reaches a target: an aspect, and a rule that writes it down."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadBinaryInfo", "OffloadBundleInfo", "OffloadDeviceCodeInfo", "OffloadImagesInfo")
load(":messages.bzl", "name_of")

# The attributes through which code gets into a program. Tools are not among them.
_ATTRIBUTES = [
    "_implicit_tests",
    "actual",
    "archive",
    "base",
    "binaries",
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
    "object",
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

def _dependencies(rule):
    found = []
    for name in _ATTRIBUTES:
        value = getattr(rule.attr, name, None)
        if type(value) == "dict":
            # Labels are the keys, the values, or in lists that are the values.
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
    """The entry IDs of the device code that a target makes itself, and what holds it."""
    if OffloadBundleInfo in target:
        return "bundle", target[OffloadBundleInfo].entry_ids
    if OffloadBinaryInfo in target:
        return "offload binary", [image.id for image in target[OffloadBinaryInfo].images.to_list()]
    if OffloadImagesInfo in target:
        return "images", [image.id for image in target[OffloadImagesInfo].images.to_list()]
    return None, []

def _aspect_impl(target, ctx):
    own = []
    dependencies = _dependencies(ctx.rule)
    form, ids = _entry_ids(target)
    if form:
        own.append(struct(
            entry_ids = tuple(ids),
            form = form,
            label = target.label,
        ))
        if CcInfo not in target:
            # What it was made of reaches nobody through it but as this.
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
    doc = """Finds the targets whose device code reaches a target, through whatever rules are between them.

For an attribute of a rule of your own: `attr.label_list(aspects = [offload_device_code_aspect])`. Each target then has
`OffloadDeviceCodeInfo`. What holds device code of others, such as a bundle, is told of and not what it was made of.
""",
    attr_aspects = _ATTRIBUTES,
)

def _offload_report_impl(ctx):
    code = depset(transitive = [target[OffloadDeviceCodeInfo].code for target in ctx.attr.targets])
    out = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(out, json.encode_indent([
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
        for target in ctx.attr.targets
    ], indent = "  ") + "\n")
    return [
        DefaultInfo(files = depset([out])),
        OffloadDeviceCodeInfo(code = code),
    ]

offload_report = rule(
    implementation = _offload_report_impl,
    doc = """Tells which targets' device code reaches programs, and for which GPUs it is.

The report is a JSON file, `NAME.json`, and the provider `OffloadDeviceCodeInfo` of the target, which `bazel cquery` shows
without building anything: see [Which device code is in a program?](howto/report.md)
""",
    attrs = {
        "targets": attr.label_list(
            doc = "Programs, libraries, test suites, anything that depends on device code.",
            mandatory = True,
            aspects = [offload_device_code_aspect],
        ),
    },
    provides = [OffloadDeviceCodeInfo],
)
