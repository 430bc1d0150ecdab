"""Actions that run the `offload` program, in a worker if Bazel allows it."""

load("@offload_bazel//:version.bzl", "MULTIPLEX_SANDBOXING")
load(":toolchains.bzl", "PROGRAM_TYPE")

# The exec group of every action that runs the program. Users can select a
# platform or machine for it: exec_properties = {"bundle.Pool": "large"}.
BUNDLE_GROUP = "bundle"

# The exec_groups of a rule that runs the program.
PROGRAM_GROUPS = {BUNDLE_GROUP: exec_group(toolchains = [PROGRAM_TYPE])}

_WORKER = {
    "requires-worker-protocol": "proto",
    "supports-multiplex-workers": "1",
    "supports-path-mapping": "1",
    "supports-worker-cancellation": "1",
    "supports-workers": "1",
} | ({"supports-multiplex-sandboxing": "1"} if MULTIPLEX_SANDBOXING else {})

def _copying_resources(_os, _inputs):
    # The kernel copies the data, and inputs are memory-mapped.
    return {"cpu": 1, "memory": 100}

def _coding_resources(_os, _inputs):
    # The program itself limits the cores that compression uses, with a window for each.
    return {"cpu": 4, "memory": 1000}

def _frame_resources(_os, _inputs):
    # Most of the time is spent on the search for matches, on one core.
    return {"cpu": 1, "memory": 300}

def offload_arguments(ctx, verb, flags = []):
    """Returns an `Args` for a call of the program, which begins with a command.

    All arguments are in one parameter file. Arguments before such a file are part
    of the worker's identity, so they must be the same for every action.

    Args:
      ctx: the rule's context.
      verb: a command of the program.
      flags: list of strings that follow it.

    Returns:
      an `Args`.
    """
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add_all([verb] + flags)
    return args

def run_offload(
        ctx,
        *,
        arguments,
        inputs,
        outputs,
        mnemonic,
        progress_message,
        coding = False,
        group = BUNDLE_GROUP,
        one_frame = False,
        program = None,
        requirements = _WORKER,
        resources = None,
        tools = []):
    """Registers an action that runs the program of the toolchain.

    Args:
      ctx: the rule's context; the rule has `PROGRAM_GROUPS`, or `group`, in its exec_groups.
      arguments: list of `Args` and strings; for a worker, only the result of `offload_arguments`.
      inputs: list or depset of Files that the program reads.
      outputs: list of Files that it writes.
      mnemonic: the action's mnemonic.
      progress_message: the action's progress message, with Bazel's placeholders.
      coding: whether the program compresses or decompresses; this sets the resources of the action.
      group: the exec group, which has `PROGRAM_TYPE`.
      one_frame: whether the program compresses at most one frame.
      program: result of `offload_program` for the group, if the rule already has it.
      requirements: the action's execution requirements; by default, those of a worker.
      resources: the action's `resource_set`; by default, according to coding and one_frame.
      tools: list of other programs that the program runs.
    """
    ctx.actions.run(
        arguments = arguments,
        exec_group = group,
        executable = program or offload_program(ctx, group),
        execution_requirements = requirements,
        inputs = inputs,
        mnemonic = mnemonic,
        outputs = outputs,
        progress_message = progress_message,
        resource_set = resources or (_frame_resources if one_frame else _coding_resources if coding else _copying_resources),
        tools = tools,
    )

def offload_program(ctx, group):
    """Returns the program of the toolchain of an exec group.

    Args:
      ctx: the rule's context.
      group: the exec group, which has `PROGRAM_TYPE`.

    Returns:
      a `FilesToRunProvider`.
    """
    return ctx.exec_groups[group].toolchains[PROGRAM_TYPE].offload_program
