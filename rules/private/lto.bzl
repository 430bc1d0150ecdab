"""The choice of link-time optimization for device code."""

load(":compiler_facts.bzl", "fact")
load(":settings.bzl", "SETTINGS_ATTRS", "setting_flag", "settings_of")

_DRIVER = "default"
_THIN = "thin"

# Values of `lto_of`.
FULL_LTO = "full"
NO_LTO = "none"

# What some drivers do without link-time optimization, for code that is linked together: compilations generate code, not the link.
OBJECTS = "objects"

# The attribute of a rule that compiles and links device code.
LTO_ATTRS = SETTINGS_ATTRS | {
    "lto": attr.string(
        doc = "Link-time optimization of device code for AMD GPUs: `none`, `full`, or `default`, which uses the setting " +
              "`//rules/settings:lto`. By default, the setting follows the driver of the compiler, which is asked: `full` for LLVM's releases from 23 on, " +
              "`none` before. With `none`, `rdc = True` still links bitcode, whose sources are optimized separately.",
        default = _DRIVER,
    ),
}

def lto_of(ctx, where, toolchain, form):
    """Returns the link-time optimization of device code for AMD GPUs.

    Args:
      ctx: the rule's context; the rule has `LTO_ATTRS`.
      where: prefix of error messages, `label: rule`.
      toolchain: result of `device_toolchain_of`.
      form: the fact about what clang's driver does with such code: `lto_hip`, `lto_openmp` and so on.

    Returns:
      a function from a target, a struct returned by `target_ids.complete`, to `NO_LTO`, `FULL_LTO` or `OBJECTS`.
    """
    origin = "lto"
    value = ctx.attr.lto
    if value == _DRIVER:
        origin = setting_flag("lto")
        value = settings_of(ctx).lto
    if value != _DRIVER:
        _check(where, origin, value)
        return lambda _target: value
    return lambda target: _driver_lto(where, toolchain, form, target)

def _driver_lto(where, toolchain, form, target):
    value = fact(toolchain, form, target)
    if value == OBJECTS:
        return value
    _check(where, "{} of the device compiler".format(form), value)
    return value

def _check(where, origin, value):
    if value in (FULL_LTO, NO_LTO):
        return
    if value == _THIN:
        fail("{}: {} is \"thin\": with ThinLTO of LLVM 22, a kernel gets no scratch memory for a function of another source, which is wrong code; use \"full\"".format(where, origin))
    fail("{}: {} is {}, expected \"default\", \"none\" or \"full\"".format(where, origin, repr(value)))
