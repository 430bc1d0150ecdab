"""The choice of link-time optimization for device code."""

load(":settings.bzl", "SETTINGS_ATTRS", "setting_flag", "settings_of")

_DRIVER = "default"
_THIN = "thin"

# Values of `lto_of`.
FULL_LTO = "full"
NO_LTO = "none"

# From this release on, clang's driver optimizes device code of AMD GPUs at link time.
_FULL_SINCE = 23

# The attribute of a rule that compiles and links device code.
LTO_ATTRS = SETTINGS_ATTRS | {
    "lto": attr.string(
        doc = "Link-time optimization of device code for AMD GPUs: `none`, `full`, or `default`, which uses the setting " +
              "`//rules/settings:lto`. By default, the setting follows the driver of the compiler's release: `full` from LLVM 23 on, " +
              "`none` before. With `none`, `rdc = True` still links bitcode, whose sources are optimized separately.",
        default = _DRIVER,
    ),
}

def lto_of(ctx, where, release, *, exempt = False):
    """Returns the link-time optimization of device code for AMD GPUs.

    Args:
      ctx: the rule's context; the rule has `LTO_ATTRS`.
      where: prefix of error messages, `label: rule`.
      release: the LLVM release of the compiler, 0 if it is unknown.
      exempt: whether clang's driver never optimizes such code at link time.

    Returns:
      `NO_LTO` or `FULL_LTO`.
    """
    value = ctx.attr.lto
    if value == _DRIVER:
        value = settings_of(ctx).lto
    if value == _DRIVER:
        return FULL_LTO if not exempt and (not release or release >= _FULL_SINCE) else NO_LTO
    if value in (FULL_LTO, NO_LTO):
        return value
    origin = "lto" if ctx.attr.lto != _DRIVER else setting_flag("lto")
    if value == _THIN:
        fail("{}: {} is \"thin\": with ThinLTO of LLVM 22, a kernel gets no scratch memory for a function of another source, which is wrong code; use \"full\"".format(where, origin))
    fail("{}: {} is {}, expected \"default\", \"none\" or \"full\"".format(where, origin, repr(value)))
