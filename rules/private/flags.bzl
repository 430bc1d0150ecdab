"""Expands and splits flags in attributes in the same way as cc_library."""

load(":messages.bzl", "name_of")

# The attribute with the files that compiler flags refer to.
COMPILER_INPUTS_ATTRS = {
    "additional_compiler_inputs": attr.label_list(
        doc = "Additional input files of compilations. Flags can refer to them with `$(location LABEL)` or `$(execpath LABEL)`.",
        allow_files = True,
    ),
}

# The attribute with the files that linker flags refer to.
LINKER_INPUTS_ATTRS = {
    "additional_linker_inputs": attr.label_list(
        doc = "Additional input files of links. Flags can refer to them with `$(location LABEL)` or `$(execpath LABEL)`.",
        allow_files = True,
    ),
}

# Attributes with flags of device code.
_DEVICE_COPTS = ["arch_copts", "copts", "cxxopts", "device_copts"]

# Attributes with linker flags.
_LINK_ATTRIBUTES = ["arch_linkopts", "device_linkopts", "linkopts"]

# Attributes with compiler flags.
_COMPILER_ATTRIBUTES = _DEVICE_COPTS + ["conlyopts", "host_copts"]

# Prefixes of flags that select the architectures to compile for.
_ARCH_FLAGS = ("--amdgpu-target", "--cuda-gpu-arch", "--offload-arch", "--no-offload-arch", "-mcpu=gfx")

_RDC = "-fgpu-rdc"

# Prefixes of flags that count what a program executes.
_COUNTERS = ("-fprofile-instr-generate", "-fprofile-instrument=", "-fprofile-generate", "-fcs-profile-generate", "-fcoverage-mapping", "-fprofile-arcs", "-ftest-coverage", "--coverage")

# The flag before one that does not reach device code.
_FOR_HOST = "-Xarch_host"

# Prefixes of flags for the link-time optimization of device code.
_LTO_FLAGS = ("-foffload-lto", "-fno-offload-lto")

# Values of Make variables can refer to other variables. Deeper nesting means that a variable refers to itself.
_DEEPEST = 10

def expand_flags(ctx, attribute):
    """Returns the flags in an attribute, with the syntax of cc_library.

    `$(location LABEL)` and similar functions expand to the paths of files, `$(NAME)` to a Make variable, which targets in
    `toolchains` can define, and `$$` to a dollar sign. The result is split as in a Bourne shell, unless the feature
    `no_copts_tokenization` is enabled.

    Args:
      ctx: the rule's context.
      attribute: name of an attribute that is a list of strings, such as `copts`.

    Returns:
      list of strings for `add_flags`.
    """
    texts = getattr(ctx.attr, attribute)
    return expand_texts(ctx, attribute, texts) if texts else []

def language_copts(ctx, language):
    """Returns the flags of a library for all its sources of a language: `copts`, then `cxxopts` or `conlyopts`, as in cc_library.

    Args:
      ctx: the rule's context; the rule has these attributes.
      language: `c`, or `c++`, which HIP is as well.

    Returns:
      list of strings for `add_flags`.
    """
    return expand_flags(ctx, "copts") + expand_flags(ctx, "conlyopts" if language == "c" else "cxxopts")

def expand_texts(ctx, attribute, texts):
    """Returns flags from an attribute that is not a list, in the form of `expand_flags`.

    Args:
      ctx: the rule's context.
      attribute: name of the attribute.
      texts: list of strings in its value.

    Returns:
      list of strings for `add_flags`.
    """
    if not texts:
        return []
    targets = _targets(ctx, attribute)
    split = "no_copts_tokenization" not in ctx.features or attribute in _LINK_ATTRIBUTES
    flags = []
    for text in texts:
        expanded = _expand(ctx, attribute, text, targets)

        if attribute in _COMPILER_ATTRIBUTES and expanded.startswith(_ARCH_FLAGS):
            fail("{}: {}: {}: architectures belong in offload_archs: the rule adds this flag for each of them".format(
                name_of(ctx.label),
                attribute,
                repr(text),
            ))

        if attribute in _COMPILER_ATTRIBUTES and _RDC in expanded:
            check_rdc(ctx, attribute, [expanded])

        # A text that is only a Make variable can expand to several flags.
        if split or (text.startswith("$(") and text.find(")") == len(text) - 1):
            flags.extend(_split(ctx, attribute, expanded))
        else:
            flags.append(expanded)
    if attribute in _DEVICE_COPTS:
        _check_device_flags(ctx, attribute, flags)
    return flags

def _check_device_flags(ctx, attribute, flags):
    """Fails if flags ask for what the rules do by an attribute, or not at all."""
    for flag in _device_words(flags):
        if flag.startswith(_LTO_FLAGS) and hasattr(ctx.attr, "lto"):
            fail("{}: {}: {}: set the attribute lto instead, \"none\" or \"full\"".format(name_of(ctx.label), attribute, repr(flag)))
    check_counters(ctx, attribute, flags)

def _device_words(flags):
    return [flag for flag, before in zip(flags, [""] + flags) if before != _FOR_HOST]

def check_counters(ctx, origin, flags):
    """Fails if flags ask for counters in device code.

    Args:
      ctx: the rule's context.
      origin: where the flags come from, for the message.
      flags: list of strings.
    """
    if not any([flag.startswith(_COUNTERS) for flag in flags]):
        return
    for flag in _device_words(flags):
        if flag.startswith(_COUNTERS):
            fail("{}: {}: {}: device code cannot be instrumented: the rules link no device runtime that writes its counters; {}".format(
                name_of(ctx.label),
                origin,
                repr(flag),
                "for host code, set host_copts" if origin in _DEVICE_COPTS and hasattr(ctx.attr, "host_copts") else "remove the flag",
            ))

def check_rdc(ctx, origin, flags):
    """Fails if flags ask for relocatable device code in a target whose attribute rdc is False.

    Args:
      ctx: the rule's context.
      origin: where the flags come from, for the message.
      flags: list of strings.
    """
    if getattr(ctx.attr, "rdc", True):
        return
    for flag in flags:
        if _RDC in flag.split(" "):
            fail("{}: {}: {}: set rdc = True instead: device code is then linked for all sources, and the flag is added".format(name_of(ctx.label), origin, _RDC))

def expand_defines(ctx, attribute):
    """Returns the definitions in an attribute, with the syntax of cc_library: expanded like flags, one word each.

    Args:
      ctx: the rule's context.
      attribute: name of an attribute that is a list of strings, such as `defines`.

    Returns:
      list of strings for `add_flags`.
    """
    texts = getattr(ctx.attr, attribute)
    if not texts:
        return []
    targets = _targets(ctx, attribute)
    defines = []
    for text in texts:
        words = _split(ctx, attribute, _expand(ctx, attribute, text, targets))
        if len(words) != 1:
            fail("{}: {}: {} has {} words, expected one definition, NAME or NAME=VALUE; quote spaces as in a shell, e.g. \"NAME='a b'\"".format(
                name_of(ctx.label),
                attribute,
                repr(text),
                len(words),
            ))
        defines.append(words[0])
    return defines

def expand_path(ctx, attribute, text):
    """Returns a path in an attribute with its Make variables expanded, as in cc_library.

    Args:
      ctx: the rule's context.
      attribute: name of the attribute, such as `includes`.
      text: the path.

    Returns:
      a string.
    """
    return _expand(ctx, attribute, text, _targets(ctx, attribute)) if "$" in text else text

def path_of(file, map_each):
    """Returns a flag with the path of a file.

    Args:
      file: a File.
      map_each: a function that returns the flag for the File.

    Returns:
      a value in lists for `add_flags`.
    """
    return struct(file = file, map_each = map_each)

def flag_mapping(out):
    """Returns the `map_each` of `Args.add_all` for flags, which can refer to files that other actions create.

    Flags are strings. If Bazel maps paths (all configurations become one), paths in flags must change as well. The
    mapped path of a File is known when Bazel writes the command line.

    Args:
      out: an output of the rule, which determines the paths of files if Bazel maps paths.

    Returns:
      a function of a string, a File or a result of `path_of`.
    """
    root, configuration = out.root.path.split("/")[:2]
    output_root = root + "/"

    def mapped(flag):
        if type(flag) == "File":
            return flag.path
        if type(flag) == "struct":
            return flag.map_each(flag.file)
        if output_root not in flag:
            return flag

        # What Bazel writes instead of the name of the configuration, when it writes the command line.
        replacement = out.root.path.split("/")[1]
        if replacement == configuration:
            return flag
        parts = flag.split(output_root)
        return output_root.join([parts[0]] + [
            "/".join([replacement] + part.split("/")[1:]) if "/" in part else part
            for part in parts[1:]
        ])

    return mapped

def add_flags(args, flags, out, **kwargs):
    """Adds flags, which can refer to files that other actions create.

    Args:
      args: an `Args`.
      flags: list or depset of strings from `expand_flags`, or of Files and results of `path_of`.
      out: an output of the action.
      **kwargs: `before_each` and `format_each` of `Args.add_all`.
    """
    if flags:
        args.add_all(flags, allow_closure = True, map_each = flag_mapping(out), **kwargs)

def _targets(ctx, attribute):
    """Returns the targets that `$(location)` can refer to, in addition to `srcs`."""
    names = ["data", "additional_linker_inputs" if attribute in _LINK_ATTRIBUTES else "additional_compiler_inputs"]
    if attribute.endswith("defines") or attribute == "linkopts":
        names.append("deps")
    targets = {}
    for name in names:
        for target in getattr(ctx.attr, name, []):
            targets[target.label] = target
    return targets.values()

def _expand(ctx, attribute, text, targets):
    expanded = []
    pending = [(text, 0)]
    for _ in range(len(text) * 1000 + 1):
        if not pending:
            break
        rest, depth = pending.pop()
        start = rest.find("$")
        if start < 0 or start == len(rest) - 1:
            expanded.append(rest)
            continue
        expanded.append(rest[:start])
        if rest[start + 1] == "$":
            expanded.append("$")
            pending.append((rest[start + 2:], depth))
            continue
        end = rest.find(")", start)
        if rest[start + 1] != "(" or end < 0:
            expanded.append("$")
            pending.append((rest[start + 1:], depth))
            continue
        pending.append((rest[end + 1:], depth))
        name = rest[start + 2:end]
        if " " in name:
            expanded.append(ctx.expand_location("$({})".format(name), targets = targets))
        elif name not in ctx.var:
            fail("{}: {}: {}: $({}) is not defined: name a target that defines it in toolchains, or write $$ for a dollar".format(
                name_of(ctx.label),
                attribute,
                repr(text),
                name,
            ))
        elif depth == _DEEPEST:
            fail("{}: {}: {}: the value of $({}) refers to itself".format(name_of(ctx.label), attribute, repr(text), name))
        else:
            pending.append((ctx.var[name], depth + 1))
    return "".join(expanded)

def _split(ctx, attribute, text):
    """Splits a text into words, by the rules of a Bourne shell for spaces, quotes and backslashes."""
    words = []
    word = None  # None between words, because '' is also a word
    quote = ""
    escaped = False
    for c in text.elems():
        if escaped:
            escaped = False
            word += ("\\" if quote and c not in "\\\"" else "") + c
        elif c == "\\" and quote != "'":
            escaped = True
            word = word or ""
        elif quote:
            if c == quote:
                quote = ""
            else:
                word += c
        elif c in "'\"":
            quote = c
            word = word or ""
        elif c in " \t":
            if word != None:
                words.append(word)
            word = None
        else:
            word = (word or "") + c
    if quote or escaped:
        fail("{}: {}: {} ends {}".format(
            name_of(ctx.label),
            attribute,
            repr(text),
            "inside a quotation: close it with " + quote if quote else "with a backslash: write two for a literal one",
        ))
    if word != None:
        words.append(word)
    return words
