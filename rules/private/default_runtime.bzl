"""The runtimes that programs are linked with if nothing names others."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":cc_infos.bzl", "link_info")
load(":linking.bzl", "HOST_ATTRS", "linux_triple")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")

# The directories that a linker searches after those of the command line. The substitute must not precede them.
_LAST_DIRECTORIES = ["=/usr/local/lib", "=/usr/local/lib64"]

def _default_runtime_impl(ctx):
    flags = ["-l" + library for library in ctx.attr.libraries]
    triple = linux_triple(ctx)
    substitutes = []
    for library in ctx.attr.libraries if triple else []:
        out = ctx.actions.declare_file("{}/lib{}.so".format(ctx.label.name, library))
        args = offload_arguments(ctx, "require")
        args.add(triple, format = "--triple=%s")
        args.add(out, format = "--output=%s")
        args.add(ctx.attr.message.format(library = "lib" + library))
        run_offload(
            ctx,
            arguments = [args],
            inputs = [],
            mnemonic = "OffloadRequire",
            outputs = [out],
            progress_message = "Writing a stand-in for lib{}".format(library),
        )
        substitutes.append(out)
    if substitutes:
        # Compiler drivers put these after the options -L, those of users and their own.
        flags.extend(["-Wl,-L," + directory for directory in _LAST_DIRECTORIES + [substitutes[0].dirname]])
    return [link_info(ctx, files = substitutes, flags = flags)]

default_runtime = rule(
    implementation = _default_runtime_impl,
    doc = """Libraries from the directories that the linker searches.

If the linker does not find one, it finds a substitute in the last directory: an object that needs a symbol that nothing
defines. The linker prints the name of the symbol, which is a message that tells users what to do.
""",
    attrs = HOST_ATTRS | {
        "libraries": attr.string_list(doc = "Names of the libraries, as for `-l`.", mandatory = True),
        "message": attr.string(doc = "What is missing, and what to do; `{library}` stands for the name.", mandatory = True),
    },
    exec_groups = PROGRAM_GROUPS,
    provides = [CcInfo],
)
