"""Kinds of analysis tests: what a rule fails with, which actions it makes, what it provides."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadBundleInfo", "OffloadDeviceCodeInfo", "OffloadImagesInfo")
load("//rules/private:messages.bzl", "name_of")  # buildifier: disable=bzl-visibility
load(":subjects.bzl", "action_subject", "matchers")

# A compiler that is never run: tests do not depend on what is installed.
_CONFIG = {"//command_line_option:extra_toolchains": "//tests/analysis:clang_toolchain"}

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.expect_failure(env, ctx.attr.message)
    return analysistest.end(env)

_failure_test = analysistest.make(
    _failure_test_impl,
    attrs = {"message": attr.string(mandatory = True)},
    config_settings = _CONFIG,
    expect_failure = True,
)

def failure_test(name, rule, message, **kwargs):
    """A target of a rule fails at analysis with a message.

    Args:
      name: name of the test.
      rule: the rule.
      message: what the failure must contain; `{}` stands for the target's label.
      **kwargs: attributes of the target.
    """
    target = name + "_target"
    rule(
        name = target,
        tags = ["manual"],
        **kwargs
    )
    _failure_test(
        name = name,
        size = "small",
        message = message.replace("{}", "//{}:{}".format(native.package_name(), target)),
        target_under_test = target,
    )

def _actions_test_impl(ctx):
    env = analysistest.begin(ctx)
    actions = {}
    for action in analysistest.target_actions(env):
        if action.mnemonic == ctx.attr.mnemonic:
            outputs = action.outputs.to_list()
            actions[outputs[0].short_path] = (action, outputs)
    if ctx.attr.count >= 0:
        asserts.equals(env, ctx.attr.count, len(actions), "number of {} actions".format(ctx.attr.mnemonic))
    if not ctx.attr.output:
        return analysistest.end(env)

    output = ctx.label.package + "/" + ctx.attr.output
    if output not in actions:
        asserts.equals(env, output, actions.keys())
        return analysistest.end(env)
    action, outputs = actions[output]
    subject = action_subject(env, action, outputs = outputs, replaced = {analysistest.target_bin_dir_path(env): "BIN"})
    if ctx.attr.content:
        subject.content_contains(ctx.attr.content)
        return analysistest.end(env)
    for words in ctx.attr.argv:
        subject.contains_adjacent_args(_split(words))
    for words in ctx.attr.not_in_argv:
        subject.not_contains_adjacent_args(_split(words))
    if ctx.attr.in_order:
        subject.contains_at_least_args(ctx.attr.in_order).in_order()
    for flag, values in ctx.attr.flag_values.items():
        subject.contains_flag_values([(flag, value) for value in values])
    for flag, values in ctx.attr.no_flag_values.items():
        subject.contains_none_of_flag_values([(flag, value) for value in values])
    subject.inputs_contain_at_least(ctx.attr.inputs)
    subject.env_contains_at_least(ctx.attr.env)
    subject.has_no_absolute_args(1 if ctx.attr.system_tool else 0)
    subject.program_is_no_shell("clang.sh")
    if ctx.attr.outputs:
        subject.outputs_contain_exactly(ctx.label.package, ctx.attr.outputs)
    return analysistest.end(env)

_INSIDE = "\\ "

def one_argument(text):
    """An argument with spaces, for `argv` and `not_in_argv` of tests.

    Args:
      text: the argument.

    Returns:
      the argument, in which a backslash precedes each space.
    """
    return text.replace(" ", _INSIDE)

def _split(words):
    return [word.replace("\0", " ") for word in words.replace(_INSIDE, "\0").split(" ")]

def actions_test_with(settings):
    """What `actions_test` makes, with other settings.

    Args:
      settings: dict of labels to values.

    Returns:
      a rule with the attributes of `actions_test`, and `target_under_test`.
    """
    return analysistest.make(
        _actions_test_impl,
        attrs = {
            "argv": attr.string_list(),
            "content": attr.string(),
            "count": attr.int(default = -1),
            "env": attr.string_dict(),
            "flag_values": attr.string_list_dict(),
            "in_order": attr.string_list(),
            "inputs": attr.string_list(),
            "mnemonic": attr.string(mandatory = True),
            "no_flag_values": attr.string_list_dict(),
            "not_in_argv": attr.string_list(),
            "output": attr.string(),
            "outputs": attr.string_list(),
            "system_tool": attr.bool(),
        },
        config_settings = _CONFIG | settings,
    )

_actions_test = actions_test_with({})

def actions_test(name, target, mnemonic, **kwargs):
    """A target has actions of a mnemonic, one of which looks so.

    Args:
      name: name of the test.
      target: the target.
      mnemonic: of the actions.
      **kwargs: count: how many there are. output: the first output, below this
        package, of the one to look at; argv: arguments that follow each other on its
        command line, with `one_argument` for those with spaces (BIN stands for the output folder); not_in_argv: words that do
        not; in_order: arguments with others between them; flag_values, no_flag_values: values of flags, in the same or the
        next argument; content: part of what it writes, for FileWrite; env: some of its environment; inputs: paths among its inputs; outputs: all its outputs; system_tool: whether
        its program is one of the machine.
    """
    _actions_test(
        name = name,
        size = "small",
        mnemonic = mnemonic,
        target_under_test = target,
        **kwargs
    )

def _provides_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    prefix = ctx.label.package + "/"
    if ctx.attr.images:
        got = [image.id + " " + image.file.short_path.removeprefix(prefix) for image in target[OffloadImagesInfo].images.to_list()]
        asserts.equals(env, ctx.attr.images, got)
    if ctx.attr.entry_ids:
        asserts.equals(env, ctx.attr.entry_ids, target[OffloadBundleInfo].entry_ids)
    if ctx.attr.files or ctx.attr.no_files:
        got = [file.short_path.removeprefix(prefix) for file in target[DefaultInfo].files.to_list()]
        asserts.equals(env, ctx.attr.files, got)
    if ctx.attr.runfiles:
        got = [file.short_path.removeprefix(prefix) for file in target[DefaultInfo].default_runfiles.files.to_list()]
        asserts.equals(env, sorted(ctx.attr.runfiles), sorted(got))
    if ctx.attr.headers:
        compilation = target[CcInfo].compilation_context
        got = [file.short_path.removeprefix(prefix) for file in compilation.headers.to_list()]
        asserts.equals(env, sorted(ctx.attr.headers), sorted(got))
        asserts.equals(env, ctx.attr.defines, compilation.defines.to_list())
    if ctx.attr.link_flags:
        inputs = [input for input in target[CcInfo].linking_context.linker_inputs.to_list() if input.owner == target.label]
        asserts.equals(env, ctx.attr.link_flags, [flag for input in inputs for flag in input.user_link_flags])
        got = [file.short_path.removeprefix(prefix) for input in inputs for file in input.additional_inputs]
        asserts.equals(env, ctx.attr.link_inputs, got)
    for words in ctx.attr.program_link_flags:
        flags = [flag for input in target[CcInfo].linking_context.linker_inputs.to_list() for flag in input.user_link_flags]
        asserts.equals(env, 1, matchers.count(flags, words.split(" ")), "{} in {}".format(words, flags))
    if ctx.attr.alwayslink:
        inputs = target[CcInfo].linking_context.linker_inputs.to_list()
        got = [str(library.alwayslink) for input in inputs if input.owner == target.label for library in input.libraries]
        asserts.equals(env, [ctx.attr.alwayslink], got)
    for group, files in ctx.attr.groups.items():
        got = [file.short_path.removeprefix(prefix) for file in getattr(target[OutputGroupInfo], group).to_list()]
        asserts.equals(env, files, got)
    return analysistest.end(env)

_provides_test = analysistest.make(
    _provides_test_impl,
    attrs = {
        "alwayslink": attr.string(),
        "defines": attr.string_list(),
        "entry_ids": attr.string_list(),
        "files": attr.string_list(),
        "headers": attr.string_list(),
        "groups": attr.string_list_dict(),
        "link_flags": attr.string_list(),
        "link_inputs": attr.string_list(),
        "no_files": attr.bool(),
        "images": attr.string_list(),
        "program_link_flags": attr.string_list(),
        "runfiles": attr.string_list(),
    },
    config_settings = _CONFIG,
)

def provides_test(name, target, **kwargs):
    """A target gives images, a bundle, files, output groups.

    Args:
      name: name of the test.
      target: the target.
      **kwargs: images: strings `ENTRY_ID FILE`; entry_ids: of the bundle; files:
        the default outputs; no_files: whether there are none; runfiles; headers and defines: what dependents get; link_flags: its own; program_link_flags: flags that
        it or its dependencies have, each once; those of one string follow each other;
        link_inputs: the files that they refer to; alwayslink: of its library, `True` or `False`;
        groups: output group to files, all below this
        package.
    """
    _provides_test(
        name = name,
        size = "small",
        target_under_test = target,
        **kwargs
    )

def _code_test_impl(ctx):
    env = analysistest.begin(ctx)
    code = analysistest.target_under_test(env)[OffloadDeviceCodeInfo].code.to_list()
    asserts.equals(env, ctx.attr.code, [" ".join([name_of(c.label), c.form] + list(c.entry_ids)) for c in code])
    return analysistest.end(env)

_code_test = analysistest.make(
    _code_test_impl,
    attrs = {"code": attr.string_list()},
    config_settings = _CONFIG,
)

def code_test(name, target, code):
    """Device code reaches a target.

    Args:
      name: name of the test.
      target: an offload_report.
      code: strings `LABEL FORM ENTRY_ID...`.
    """
    _code_test(
        name = name,
        size = "small",
        code = code,
        target_under_test = target,
    )
