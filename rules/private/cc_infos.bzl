"""What C++ programs get from targets that link no objects of their own."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def link_info(ctx, *, context = None, deps = [], files = [], flags = [], libraries = []):
    """Returns what programs get from a target with libraries or linker flags, but without objects.

    Args:
      ctx: the rule's context.
      context: CcCompilationContext of dependents, besides those of deps.
      deps: list of Targets with CcInfo, which are linked with the target.
      files: list of Files that the flags refer to.
      flags: list of linker flags of programs.
      libraries: list of LibraryToLink.

    Returns:
      a CcInfo.
    """
    own = [cc_common.create_linker_input(
        additional_inputs = depset(files),
        libraries = depset(libraries),
        owner = ctx.label,
        user_link_flags = flags,
    )] if flags or libraries else []
    return cc_common.merge_cc_infos(
        direct_cc_infos = [CcInfo(
            compilation_context = context,
            linking_context = cc_common.create_linking_context(linker_inputs = depset(own)),
        )],
        cc_infos = [dep[CcInfo] for dep in deps],
    )
