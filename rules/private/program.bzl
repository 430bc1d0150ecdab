"""Running the `offload` program: one action, in a worker where Bazel allows it."""

load(":toolchains.bzl", "PROGRAM_TYPE")

_REQUIREMENTS = {
    "requires-worker-protocol": "proto",
    "supports-multiplex-sandboxing": "1",
    "supports-multiplex-workers": "1",
    "supports-path-mapping": "1",
    "supports-worker-cancellation": "1",
    "supports-workers": "1",
}

def _resources(_os, _inputs):
    # Entries are copied and coded on the cores of the program's own budget.
    return {"cpu": 1, "memory": 200}

def offload_arguments(ctx, verb):
    """An `Args` that begins a call of the program with a verb.

    All of it goes into one parameter file: what stands before such a file is
    part of the worker's identity, so it must be the same for every action.
    """
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add(verb)
    return args

def run_offload(ctx, *, arguments, inputs, outputs, mnemonic, progress_message):
    """Registers an action that runs the program of the toolchain.

    Args:
      ctx: the rule's context; the rule names `PROGRAM_TYPE` in its toolchains.
      arguments: what `offload_arguments` gave, completed.
      inputs: list or depset of Files that the program may read.
      outputs: list of Files that it writes.
      mnemonic: the action's mnemonic.
      progress_message: the action's progress message, with Bazel's placeholders.
    """
    ctx.actions.run(
        arguments = [arguments],
        executable = ctx.toolchains[PROGRAM_TYPE].offload_program,
        execution_requirements = _REQUIREMENTS,
        inputs = inputs,
        mnemonic = mnemonic,
        outputs = outputs,
        progress_message = progress_message,
        resource_set = _resources,
        toolchain = PROGRAM_TYPE,
    )
