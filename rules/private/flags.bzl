"""Flags in attributes: expanded and split as cc_library does it."""

load(":messages.bzl", "name_of")

# The attribute with the files that flags of compilations name.
COMPILER_INPUTS_ATTRS = {
    "additional_compiler_inputs": attr.label_list(
        doc = "Files that compilations read, beside sources and headers. Flags name them with `$(location LABEL)` or `$(execpath LABEL)`.",
        allow_files = True,
    ),
}

# The attribute with the files that flags of links name.
LINKER_INPUTS_ATTRS = {
    "additional_linker_inputs": attr.label_list(
        doc = "Files that links read, beside objects and libraries. Flags name them with `$(location LABEL)` or `$(execpath LABEL)`.",
        allow_files = True,
    ),
}

# Attributes whose flags are for links.
_LINK_ATTRIBUTES = ["linkopts", "device_linkopts"]

# Beginnings of flags that say which architectures to compile for.
_ARCH_FLAGS = ("--amdgpu-target", "--cuda-gpu-arch", "--offload-arch", "--no-offload-arch", "-mcpu=gfx")

# A value of a Make variable may name others; more of them within each other refer to themselves.
_DEEPEST = 10

# What Bazel puts in place of the configuration with --experimental_output_paths=strip.
_MAPPED = "cfg"

def expand_flags(ctx, attribute):
    """The flags of an attribute, as cc_library takes them.

    `$(location LABEL)` and its relatives stand for the paths of files, `$(NAME)` for a Make variable, which targets in
    `toolchains` may define, and `$$` for a dollar. What comes out is split as a Bourne shell does it, but for the
    feature `no_copts_tokenization`.

    Args:
      ctx: the rule's context.
      attribute: name of an attribute that is a list of strings, such as `copts`.

    Returns:
      list of strings for `add_flags`.
    """
    return expand_texts(ctx, attribute, getattr(ctx.attr, attribute))

def expand_texts(ctx, attribute, texts):
    """Flags of an attribute that is no list, as `expand_flags` gives them.

    Args:
      ctx: the rule's context.
      attribute: name of the attribute.
      texts: list of strings in its value.

    Returns:
      list of strings for `add_flags`.
    """
    targets = _targets(ctx, attribute)
    split = "no_copts_tokenization" not in ctx.features or attribute in _LINK_ATTRIBUTES
    flags = []
    for text in texts:
        expanded = _expand(ctx, attribute, text, targets)

        if "copts" in attribute and expanded.startswith(_ARCH_FLAGS):
            fail("{}: {}: {}: architectures belong in offload_archs: the rule compiles for each of them, and makes this flag".format(
                name_of(ctx.label),
                attribute,
                repr(text),
            ))

        # A Make variable alone may stand for several flags.
        if split or (text.startswith("$(") and text.find(")") == len(text) - 1):
            flags.extend(_split(ctx, attribute, expanded))
        else:
            flags.append(expanded)
    return flags

def expand_defines(ctx, attribute):
    """The definitions of an attribute, as cc_library takes them: expanded as flags are, each one word.

    Args:
      ctx: the rule's context.
      attribute: name of an attribute that is a list of strings, such as `defines`.

    Returns:
      list of strings for `add_flags`.
    """
    targets = _targets(ctx, attribute)
    defines = []
    for text in getattr(ctx.attr, attribute):
        words = _split(ctx, attribute, _expand(ctx, attribute, text, targets))
        if len(words) != 1:
            fail("{}: {}: {} has {} words, expected one definition, NAME or NAME=VALUE; quote spaces as a shell needs it, e.g. \"NAME='a b'\"".format(
                name_of(ctx.label),
                attribute,
                repr(text),
                len(words),
            ))
        defines.append(words[0])
    return defines

def add_flags(args, flags, out, **kwargs):
    """Adds flags, which may name files that other actions make.

    Args:
      args: an `Args`.
      flags: list or depset of strings, as `expand_flags` gives them.
      out: an output of the action, which tells where files are when Bazel maps paths.
      **kwargs: `before_each` and `format_each` of `Args.add_all`.
    """
    output_root = out.root.path.split("/")[0] + "/"

    # Flags are strings. Where Bazel maps paths (all configurations become one), they must follow: files know their
    # mapped path when the command line is written.
    def mapped(flag):
        if output_root not in flag or out.root.path.split("/")[1] != _MAPPED:
            return flag
        parts = flag.split(output_root)
        return output_root.join([parts[0]] + [
            "/".join([_MAPPED] + part.split("/")[1:]) if "/" in part else part
            for part in parts[1:]
        ])

    args.add_all(flags, allow_closure = True, map_each = mapped, **kwargs)

def _targets(ctx, attribute):
    """The targets that `$(location)` may name, beside `srcs`."""
    names = ["data", "additional_linker_inputs" if attribute in _LINK_ATTRIBUTES else "additional_compiler_inputs"]
    if attribute.endswith("defines"):
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
            fail("{}: {}: {}: the value of $({}) names itself".format(name_of(ctx.label), attribute, repr(text), name))
        else:
            pending.append((ctx.var[name], depth + 1))
    return "".join(expanded)

def _split(ctx, attribute, text):
    """The words of a text, by the rules of a Bourne shell for spaces, quotes and backslashes."""
    words = []
    word = None  # None between words: '' is a word, too
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
            "within a quotation: close it with " + quote if quote else "with a backslash: write two for one",
        ))
    if word != None:
        words.append(word)
    return words
