"""Settings with the beginnings of flags."""

FlagBeginningsInfo = provider(
    doc = "The value of a setting with flags.",
    fields = {"table": "Result of `flag_table`: a flag that begins with one of its entries is meant."},
)

def flag_table(beginnings):
    """Returns a table of beginnings of flags, for `longest_beginning`.

    Args:
      beginnings: list of strings.

    Returns:
      a dict from a length to a dict whose keys are the beginnings of this length, the longest first.
    """
    by_length = {}
    for beginning in beginnings:
        by_length.setdefault(len(beginning), {})[beginning] = None
    return {length: by_length[length] for length in sorted(by_length, reverse = True) if length}

def longest_beginning(flag, table):
    """Returns the length of the longest entry of a table with which a flag begins.

    Args:
      flag: a string.
      table: result of `flag_table`.

    Returns:
      an int, 0 without such an entry.
    """
    for length, beginnings in table.items():
        if flag[:length] in beginnings:
            return length
    return 0

_DEFAULT = "default"

def _flag_beginnings_impl(ctx):
    beginnings = []
    for value in ctx.build_setting_value:
        beginnings.extend(ctx.attr.table if value == _DEFAULT else [value])
    return [FlagBeginningsInfo(table = flag_table(beginnings))]

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
