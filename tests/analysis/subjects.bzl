"""What tests examine of an action. The names are those of rules_testing's `ActionSubject`, which can replace this file."""

load("@bazel_skylib//lib:unittest.bzl", "asserts")

def action_subject(env, action, *, outputs, replaced = {}):
    """Returns the checks of an action. Each one that fails is an error of the test.

    Args:
      env: result of `analysistest.begin`.
      action: the action.
      outputs: list of its output Files.
      replaced: dict of parts of arguments that depend on the configuration of the test, and what stands for them.

    Returns:
      a struct of functions.
    """
    argv = action.argv or []
    for part, name in replaced.items():
        argv = [argument.replace(part, name) for argument in argv]
    inputs = [file.short_path for file in action.inputs.to_list()]
    return struct(
        contains_adjacent_args = lambda args: asserts.true(env, _count(argv, args) > 0, "{} is not in {}".format(args, argv)),
        contains_at_least_args = lambda args: _contains_at_least(env, argv, args),
        contains_flag_values = lambda pairs: [asserts.true(env, _has_value(argv, flag, value), "{} with the value {} is not in {}".format(flag, value, argv)) for flag, value in pairs],
        contains_none_of_flag_values = lambda pairs: [asserts.false(env, _has_value(argv, flag, value), "{} with the value {} is in {}".format(flag, value, argv)) for flag, value in pairs],
        content_contains = lambda text: asserts.true(env, text in action.content, "{} is not in {}".format(repr(text), repr(action.content))),
        env_contains_at_least = lambda values: [asserts.equals(env, value, action.env.get(name), "variable " + name) for name, value in values.items()],
        has_no_absolute_args = lambda first: [asserts.false(env, argument.startswith("/") and not argument.startswith("//"), "{} is an absolute path".format(argument)) for argument in argv[first:]],
        inputs_contain_at_least = lambda files: [asserts.true(env, file in inputs, "{} is not in {}".format(file, inputs)) for file in files],
        not_contains_adjacent_args = lambda args: asserts.false(env, _count(argv, args) > 0, "{} is in {}".format(args, argv)),
        not_contains_arg = lambda arg: asserts.false(env, arg in argv, "{} is in {}".format(arg, argv)),
        outputs_contain_exactly = lambda package, files: asserts.equals(env, files, [file.short_path.removeprefix(package + "/") for file in outputs]),
        program_is_no_shell = lambda allowed: asserts.false(env, argv[0].endswith("sh") and not argv[0].endswith("/" + allowed), "a shell runs {}".format(argv)),
    )

def _contains_at_least(env, argv, args):
    """Checks that arguments exist; `in_order` of the result, also that they follow each other, with others between them."""
    for arg in args:
        asserts.true(env, arg in argv, "{} is not in {}".format(arg, argv))
    return struct(in_order = lambda: asserts.true(env, _in_order(argv, args), "{} are in another order in {}".format(args, argv)))

def _in_order(argv, args):
    found = 0
    for argument in argv:
        if found < len(args) and argument == args[found]:
            found += 1
    return found == len(args)

def _has_value(argv, flag, value):
    """Reports whether a flag has a value: in the next argument, after =, or in the same argument."""
    return _count(argv, [flag, value]) > 0 or flag + "=" + value in argv or flag + value in argv

def _count(argv, args):
    """Returns at how many places arguments follow each other without others between them."""
    return len([i for i in range(len(argv) - len(args) + 1) if argv[i:i + len(args)] == args])

# What the checks compare with, for a test of them.
matchers = struct(
    count = _count,
    has_value = _has_value,
    in_order = _in_order,
)
