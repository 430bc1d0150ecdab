"""Flags of the C++ toolchain, for compilations of HIP or OpenMP with clang."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "CC_TOOLCHAIN_TYPE", "find_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load(":clang_options.bzl", "VALUES", "VALUES_AFTER_PREFIX")
load(":flag_settings.bzl", "flag_table", "longest_beginning")
load(":flag_tables.bzl", "CPU_ONLY", "HOST_SKIP", "OF_PROCESSORS", "TARGET", "USER_KEEP")
load(":gcc_options.bzl", "GCC_ONLY")
load(":messages.bzl", "name_of")
load(":settings.bzl", "settings_of")

# Features whose flags only work with the compiler of the C++ toolchain: they refer to files that only its compilations
# have, or that only its compiler reads or writes.
_UNSUPPORTED_FEATURES = [
    "autofdo",
    "cs_fdo_instrument",
    "cs_fdo_optimize",
    "fdo_instrument",
    "fdo_optimize",
    "fdo_prefetch_hints",
    "full_lto",
    "header_modules",
    "layering_check",
    "module_maps",
    "parse_headers",
    "per_object_debug_info",
    "propeller_optimize",
    "thin_lto",
    "use_header_modules",
    "xbinaryfdo",
]

_UNWANTED = flag_table(CPU_ONLY + HOST_SKIP)
_TARGET = flag_table(TARGET)
_USER_KEEP = flag_table(USER_KEEP)

_GCC_ONLY = {option: None for option in GCC_ONLY.replace("\n", " ").split(" ") if option}
_GCC_BEGINNINGS = tuple([option.removesuffix("*") for option in _GCC_ONLY if option.endswith("*")])

def _is_gcc_only(flag):
    name, equals, _ = flag.partition("=")
    return name + equals in _GCC_ONLY or flag.startswith(_GCC_BEGINNINGS)

# Flags that disable warnings about flags for another compiler.
_NO_WARNINGS = [
    "-Wno-ignored-optimization-argument",
    "-Wno-option-ignored",
    "-Wno-unknown-warning-option",
    "-Wno-unused-command-line-argument",
]

# Features of coverage instrumentation.
_COVERAGE = ["coverage", "gcc_coverage_map_format", "llvm_coverage_map_format"]

# Flags of GCC's coverage format: programs that GCC links have no code that writes clang's counters.
_GCC_COVERAGE = ["--coverage", "-fprofile-arcs", "-ftest-coverage"]

_PARSE_HEADERS = "parse_headers"

_LANGUAGES = ["c", "c++"]

CcDefaultsInfo = provider(
    doc = "What targets without features of their own take from the C++ toolchain, computed once for all of them.",
    fields = {
        "configurations": "List of results of `cc_configuration`, with all flags computed: that of the default exec group and that of compilations, if they differ. Empty without a C++ toolchain, and if targets print their flags.",
        "features": "The enabled and the disabled features: a tuple of two lists.",
    },
)

# The attribute of rules that take flags from the target `cc_defaults`.
CC_DEFAULTS_ATTRS = {
    "_cc_defaults": attr.label(
        default = "//rules/private:cc_defaults",
        providers = [CcDefaultsInfo],
    ),
}

def cc_configuration(ctx, group = None, counts = False, mandatory = True):
    """Returns the C++ toolchain of an exec group of a target, configured by the features of the target.

    Args:
      ctx: the rule's context; the rule has the fragment `cpp`, and the exec group uses the C++ toolchain.
      group: name of the exec group whose actions use the result; by default, that of the actions that C++ rules also have.
      counts: whether flags are for code that `bazel coverage` can instrument, in clang's format.
      mandatory: whether to fail if the execution platform of the group has no C++ toolchain for the target platform.

    Returns:
      None without a C++ toolchain, otherwise a struct: computed, a dict for `_once`; counted, whether code is instrumented; toolchain, the `CcToolchainInfo`; features, the `FeatureConfiguration`
      without the feature parse_headers; flag_features, that for flags; maps_modules, whether libraries have module maps; parses_headers, whether that feature is enabled.
    """
    toolchain = _toolchain_of(ctx, group) if group else find_cc_toolchain(ctx, mandatory = mandatory)
    counted = counts and ctx.coverage_instrumented()
    if hasattr(ctx.attr, "_cc_defaults") and not counted:
        defaults = ctx.attr._cc_defaults[CcDefaultsInfo]
        if defaults.features == (ctx.features, ctx.disabled_features):
            for configuration in defaults.configurations:
                if configuration.toolchain == toolchain:
                    return configuration
    return _configure(ctx, toolchain, counted)

def _toolchain_of(ctx, group):
    """Returns the C++ toolchain of an exec group, None without one, as `find_cc_toolchain` does for the default group."""
    toolchain = ctx.exec_groups[group].toolchains[CC_TOOLCHAIN_TYPE]
    return toolchain.cc if hasattr(toolchain, "cc_provider_in_toolchain") and hasattr(toolchain, "cc") else toolchain

def compute_flags(ctx, cc):
    """Computes all flags of a configuration, for all targets that use it.

    Args:
      ctx: the context of a rule.
      cc: result of `cc_configuration`.
    """
    for language in _LANGUAGES:
        host_flags(ctx, cc, language)
        host_environment(cc, language)
        for for_cpu in [False, True]:
            for parses_host in [False, True]:
                device_flags(ctx, cc, language, for_cpu = for_cpu, parses_host = parses_host)

def _configure(ctx, toolchain, counted):
    if not toolchain:
        return None
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    unsupported = _UNSUPPORTED_FEATURES + ([] if counted else _COVERAGE)
    return struct(
        computed = {},
        counted = counted,
        features = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = toolchain,
            requested_features = [feature for feature in ctx.features if feature != _PARSE_HEADERS],
            unsupported_features = ctx.disabled_features + [_PARSE_HEADERS],
        ),
        flag_features = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = toolchain,
            requested_features = [feature for feature in ctx.features if feature not in unsupported],
            unsupported_features = ctx.disabled_features + unsupported,
        ),
        maps_modules = cc_common.is_enabled(feature_configuration = features, feature_name = "module_maps"),
        parses_headers = cc_common.is_enabled(feature_configuration = features, feature_name = _PARSE_HEADERS),
        toolchain = toolchain,
    )

def _once(cc, key, compute):
    """Returns what a function returns. It is called once for each target, or once for all, not for each source and architecture."""
    if key not in cc.computed:
        cc.computed[key] = compute()
    return cc.computed[key]

def host_flags(ctx, cc, language = "c++"):
    """Returns the C++ toolchain's flags for compilations of host code, without those that clang does not accept.

    Args:
      ctx: the rule's context.
      cc: result of `cc_configuration`.
      language: `c` or `c++`.

    Returns:
      list of strings for `add_flags`.
    """
    return _once(cc, "host flags of " + language, lambda: _host_flags(ctx, cc, language))

def _host_flags(ctx, cc, language):
    kept = []
    skipped = []
    skip = settings_of(ctx).host_skip_copts
    for flag in _flags(_command_line(cc, language, _user_flags(ctx, language))):
        if longest_beginning(flag[0], skip) or _is_gcc_only(flag[0]) or (cc.counted and flag[0] in _GCC_COVERAGE):
            skipped.append(flag)
        else:
            kept.append(flag)
    _explain(ctx, cc, language, "host", skipped)
    return _NO_WARNINGS + _words(kept)

def _explain(ctx, cc, language, half, skipped):
    """Prints the flags that a half of the code does not get, once, if the setting explain_flags is on."""
    if not skipped or not settings_of(ctx).explain_flags:
        return
    text = "{}: {} code in {} does not get these flags of the C++ toolchain and of --copt: {}".format(
        name_of(ctx.label),
        half,
        "C" if language == "c" else "C++",
        " ".join({" ".join(flag): None for flag in skipped}),
    )
    if cc and text in cc.computed:
        return
    if cc:
        cc.computed[text] = True

    # buildifier: disable=print
    print(text)

def host_environment(cc, language = "c++"):
    """Returns the environment of the C++ toolchain's compilations.

    Args:
      cc: result of `cc_configuration`.
      language: `c` or `c++`.

    Returns:
      dict of strings.
    """

    # As Bazel does for C++: debug information must not contain the working directory of an action.
    return _once(cc, "environment of " + language, lambda: {"PWD": "/proc/self/cwd"} | cc_common.get_environment_variables(
        action_name = _action(language),
        feature_configuration = cc.flag_features,
        variables = cc_common.empty_variables(),
    ))

def headers_files(cc):
    """Returns the files of the C++ toolchain: headers, which flags of `device_flags` refer to, and others.

    Args:
      cc: result of `cc_configuration`, or None.

    Returns:
      a depset of Files.
    """
    return cc.toolchain.all_files if cc else depset()

def device_flags(ctx, cc = None, language = "c++", for_cpu = False, parses_host = False):
    """Returns the flags for C++ that also apply to device code.

    These are the flags of `--copt`, `--cxxopt` and `--conlyopt`, except those for a CPU, and the C++ toolchain's flags for
    the language standard and the locations of headers.

    Args:
      ctx: the rule's context; the rule has the fragment `cpp`.
      cc: result of `cc_configuration`; None without a C++ toolchain.
      language: `c` or `c++`.
      for_cpu: whether the device is a CPU like the host, so that flags for its instructions (`-mavx2`) apply.
      parses_host: whether the compilation also reads declarations of the host, so that the C++ toolchain's target applies.

    Returns:
      list of strings for `add_flags`.
    """
    compute = lambda: _device_flags(ctx, cc, language, for_cpu, parses_host)
    return _once(cc, ("device flags", language, for_cpu, parses_host), compute) if cc else compute()

def _device_flags(ctx, cc, language, for_cpu, parses_host):
    keep = settings_of(ctx).device_keep_copts
    kept = []
    skipped = []
    own = _flags(_command_line(cc, language, [])) if cc else []
    for i, flag in enumerate(own + _flags(_user_flags(ctx, language))):
        # The longest entry decides: -D is for both, -D_FORTIFY_SOURCE for the host.
        text = _joined(flag)
        by_user = i >= len(own)
        wanted = max(
            longest_beginning(text, keep),
            longest_beginning(text, _TARGET) if parses_host else 0,
            longest_beginning(text, _USER_KEEP) if by_user else 0,
        )
        unwanted = longest_beginning(text, _UNWANTED)
        if for_cpu and not wanted and unwanted == len(OF_PROCESSORS) and text.startswith(OF_PROCESSORS):
            takes = True
        elif wanted or unwanted:
            takes = wanted >= unwanted
        else:
            # Of the toolchain's flags, device code only takes those that it must have.
            takes = by_user
        if takes and not (by_user and _is_gcc_only(flag[0])):
            kept.append(flag)
        else:
            skipped.append(flag)
    _explain(ctx, cc, language, "device", skipped)
    return _NO_WARNINGS + _words(kept) if kept else []

def without_inclusions(flags):
    """Returns flags for a source that is already written with its headers, including those of `-include`.

    Args:
      flags: list of strings.

    Returns:
      list of strings.
    """
    return _words([flag for flag in _flags(flags) if not flag[0].startswith("-include") and not flag[0].startswith("--include=")])

def _action(language):
    return "c-compile" if language == "c" else "c++-compile"

def _user_flags(ctx, language):
    cpp = ctx.fragments.cpp
    return cpp.copts + (cpp.conlyopts if language == "c" else cpp.cxxopts)

def _command_line(cc, language, user_flags):
    return cc_common.get_memory_inefficient_command_line(
        action_name = _action(language),
        feature_configuration = cc.flag_features,
        variables = cc_common.create_compile_variables(
            cc_toolchain = cc.toolchain,
            feature_configuration = cc.flag_features,
            # Without it, the toolchain has no flags for this. Host code is position-independent in any case.
            use_pic = cc_common.is_enabled(feature_configuration = cc.flag_features, feature_name = "supports_pic"),
            user_compile_flags = user_flags,
        ),
    )

def _flags(words):
    """Splits the words of a command line into lists of a flag and its values."""
    flags = []
    missing = 0
    for word in words:
        if missing:
            flags[-1].append(word)
            missing -= 1
        else:
            flags.append([word])
            missing = _values_after(word)
    return flags

def _values_after(flag):
    """Returns the number of words after a flag that are its values."""
    if flag in VALUES:
        return VALUES[flag]
    for prefix, count in VALUES_AFTER_PREFIX.items():
        if flag.startswith(prefix):
            return count
    return 0

def _joined(flag):
    return "".join(flag)

def _words(flags):
    return [word for flag in flags for word in flag]
