"""Sources of a target: which files are compiled, and the names of what is made of them."""

load(":messages.bzl", "file_name", "name_of")

# Extensions of headers, which srcs also accepts: those of cc_library and CUDA.
HEADERS = [".h", ".hh", ".hpp", ".hxx", ".h++", ".H", ".cuh", ".inc", ".inl", ".ipp", ".tcc", ".tlh", ".tli"]

_HEADER_EXTENSIONS = {extension[1:]: None for extension in HEADERS}

# Flags of attributes with files that compilations read, for `bazel build --compile_one_dependency FILE`.
COMPILE_INPUT = ["DIRECT_COMPILE_TIME_INPUT"]

# Extensions of C++, as in cc_library, and of sources that can have device code.
CXX_SOURCES = [".cpp", ".cc", ".cxx", ".c++", ".C"]
HIP_SOURCES = [".hip", ".cu"] + CXX_SOURCES

# Extensions of other sources and of objects that code objects can consist of.
CODE_SOURCES = [".s", ".S", ".cl", ".ll", ".bc"]
CODE_OBJECTS = [".o"]

def sources_of(ctx):
    """Returns the files in srcs that are compiled. Fails if one is a directory.

    Args:
      ctx: the rule's context.

    Returns:
      list of Files.
    """
    sources = []
    for file in ctx.files.srcs:
        if file.is_directory:
            fail("{}: srcs: {} is a directory, whose files are known too late for an action each: expected files; name the outputs of the rule that makes it, or add it to hdrs if it has headers".format(
                name_of(ctx.label),
                file.short_path,
            ))
        if file.extension not in _HEADER_EXTENSIONS:
            sources.append(file)
    return sources

def require_sources(ctx, where, advice):
    """Fails if nothing in srcs is compiled.

    Args:
      ctx: the rule's context.
      where: prefix of error messages, `label: rule`.
      advice: what to add, for the message.
    """
    if not sources_of(ctx):
        fail("{}: srcs {}: {}".format(where, "has only headers" if ctx.files.srcs else "is empty", advice))

def private_headers_of(ctx):
    """Returns the headers in srcs, which only the sources of the target can include.

    Args:
      ctx: the rule's context.

    Returns:
      list of Files.
    """
    return [file for file in ctx.files.srcs if file.extension in _HEADER_EXTENSIONS]

def object_names(ctx, srcs):
    """Returns names for the outputs of compilations, relative to a directory of the target.

    Args:
      ctx: the rule's context.
      srcs: list of Files.

    Returns:
      list of paths without extension, all different.
    """
    package = "/".join([part for part in [ctx.label.repo_name and "../" + ctx.label.repo_name, ctx.label.package] if part])
    names = []
    for src in srcs:
        path = src.short_path
        if package and path.startswith(package + "/"):
            path = path[len(package) + 1:]
        path = path.replace("../", "")
        name = path.removesuffix("." + src.extension)
        names.append(path.replace(".", "_") if name in names else name)
    return names

def compilation_id(ctx, src):
    """Returns the compilation ID, which clang adds to names of symbols that must differ between sources.

    Clang's default is a hash of paths and options. This ID is the same for every
    architecture and machine, and different for every source.

    Args:
      ctx: the rule's context.
      src: the source.

    Returns:
      a string for `-cuid=`.
    """
    name = "{} {}".format(ctx.label, src.short_path)
    return "%x_%x" % (hash(name) + (1 << 31), hash(name[::-1]) + (1 << 31))

def source_name(label, src):
    """Returns the name of a source in messages of device links.

    Args:
      label: `Label` of the target that compiles it.
      src: the source, a File.

    Returns:
      a string: the path, which is relative to the workspace, and the target.
    """
    return "{} ({})".format(file_name(src), name_of(label))
