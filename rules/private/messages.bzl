"""Names of targets, flags and rules in messages."""

def name_of(label):
    """Returns a label as users write it: `//pkg:name` for the main repository.

    Args:
      label: a `Label`.

    Returns:
      the label as a string, without the `@@` of the main repository.
    """
    text = str(label)
    return text[2:] if text.startswith("@@//") else text

def file_name(file):
    """Returns the name of a file in messages, without the directory of outputs.

    Args:
      file: a File.

    Returns:
      the path relative to the workspace; it begins with `external/` for a file of another repository.
    """
    path = file.short_path
    return "external/" + path.removeprefix("../") if path.startswith("../") else path

def flag_of(setting):
    """Returns the flag of a build setting as users write it.

    Args:
      setting: `Label` of the build setting.

    Returns:
      a string such as `--@rules_offload//rules/settings:offload_archs`.
    """
    return "--{}//{}:{}".format("@rules_offload" if setting.repo_name else "", setting.package, setting.name)

def place(ctx, rule_name):
    """Returns the prefix of error messages: `//pkg:name: rule`.

    Args:
      ctx: the rule's context.
      rule_name: name of the rule, as users load it.

    Returns:
      a string.
    """
    return "{}: {}".format(name_of(ctx.label), rule_name)
