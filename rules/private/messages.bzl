"""How messages name things."""

def name_of(label):
    """A label as people write it: `//pkg:name` for the main repository.

    Args:
      label: a `Label`.

    Returns:
      its string, without the `@@` of the main repository.
    """
    text = str(label)
    return text[2:] if text.startswith("@@//") else text

def flag_of(setting):
    """The flag of a build setting as people write it.

    Args:
      setting: its `Label`.

    Returns:
      a string such as `--@rules_offload//rules/settings:offload_archs`.
    """
    return "--{}//{}:{}".format("@rules_offload" if setting.repo_name else "", setting.package, setting.name)

def place(ctx, rule_name):
    """What a message begins with: `//pkg:name: rule`.

    Args:
      ctx: the rule's context.
      rule_name: name of the rule, as users load it.

    Returns:
      a string.
    """
    return "{}: {}".format(name_of(ctx.label), rule_name)
