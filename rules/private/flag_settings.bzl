"""Settings with the beginnings of flags."""

FlagBeginningsInfo = provider(
    doc = "The value of a setting with flags.",
    fields = {"beginnings": "List of strings: a flag that begins with one of them is meant."},
)

_DEFAULT = "default"

def _flag_beginnings_impl(ctx):
    beginnings = []
    for value in ctx.build_setting_value:
        beginnings.extend(ctx.attr.table if value == _DEFAULT else [value])
    return [FlagBeginningsInfo(beginnings = beginnings)]

flag_beginnings = rule(
    implementation = _flag_beginnings_impl,
    doc = "A setting that may be repeated. Its value `default`, which is also the default, stands for all entries of the table.",
    attrs = {
        "table": attr.string_list(
            doc = "The entries that `default` stands for.",
        ),
    },
    build_setting = config.string_list(
        flag = True,
        repeatable = True,
    ),
)
