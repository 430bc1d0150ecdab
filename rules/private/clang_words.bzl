"""Reads the commands that clang's driver prints with `-###`."""

def arguments_of(line):
    """Returns the words of a command, each of which the driver prints in double quotes.

    Args:
      line: a line of its output.

    Returns:
      list of strings.
    """
    return [word.replace("\\\"", "\"").replace("\\$", "$").replace("\\\\", "\\") for word in line.strip().removeprefix("\"").removesuffix("\"").split("\" \"")]

def family_of(processor):
    """Returns the family of a processor: its name without minor version and stepping.

    Args:
      processor: such as `gfx90a` or `gfx9-4-generic`.

    Returns:
      a string such as `gfx9`, `generic`, or the processor itself if it has no such name.
    """
    if processor.endswith("-generic"):
        return "generic"
    name = processor.partition("-")[0]
    return name[:-2] if name.startswith("gfx") and len(name) > 5 else name

def _name(command):
    return command[0].rpartition("/")[2]

def _value_after(words, flag):
    """Returns the word after a flag, empty if the flag is missing."""
    for word, following in zip(words, words[1:]):
        if word == flag:
            return following
    return ""

def _starting(words, prefix):
    """Returns the rest of the last word with a prefix, empty without such a word."""
    found = [word.removeprefix(prefix) for word in words if word.startswith(prefix)]
    return found[-1] if found else ""

def _compilations(commands, processor):
    """Returns the compilations for a processor: it is in the name of their output, with or without the rest of the names."""
    return [
        command
        for command in commands
        if "-cc1" in command and (_value_after(command, "-target-cpu") == processor or "-" + processor + "-" in _value_after(command, "-o"))
    ]

# Flags of the linker that depend on the target and the optimization level, which links have anyway.
_OTHER_PLUGIN_OPTIONS = ("mcpu=", "-mattr=", "O")
_OTHER_LTO_FLAGS = "--lto-CGO"

def _plugin_flags(words):
    """Returns the flags in the words of a linker that affect the code that it generates."""
    flags = []
    for word, following in zip(words, words[1:] + [""]):
        option = word.removeprefix("-plugin-opt=")
        if word == "-mllvm":
            flags.append("-plugin-opt=" + following)
        elif (option != word and not option.startswith(_OTHER_PLUGIN_OPTIONS)) or (word.startswith("--lto-") and not word.startswith(_OTHER_LTO_FLAGS)):
            flags.append(word)
    return flags

def _after_triple(words, prefix):
    """Returns what the linker wrapper passes on for AMD GPUs: `PREFIXtriple=WORD`."""
    return [
        word.removeprefix(prefix).partition("=")[2]
        for word in words
        if word.startswith((prefix + "amdgcn", prefix + "amdgpu"))
    ]

_WRAPPER = "clang-linker-wrapper"
_LINKERS = ["lld", "ld.lld"]

def _link(commands, processor):
    """Returns the facts of the link for a processor."""
    for command in commands:
        name = _name(command)
        if name == _WRAPPER:
            passed = _after_triple(command, "--device-linker=") + _after_triple(command, "--device-compiler=")
            return {"link_flags": " ".join(_plugin_flags(passed)), "linker": name}
        if name in _LINKERS and "-plugin-opt=mcpu=" + processor in command:
            return {"link_flags": " ".join(_plugin_flags(command)), "linker": name}
    return {}

def _packing(commands):
    """Returns the facts of the container of the images."""
    for command in commands:
        if _name(command) in ["llvm-offload-binary", "clang-offload-packager"]:
            return {"packing": "offload-binary"}
        if _name(command) == "clang-offload-bundler":
            return {"packing": "bundler"}
    return {}

def _compression(commands):
    for command in commands:
        if _name(command) in [_WRAPPER, "clang-offload-bundler"]:
            return {"compression": "zstd" if "-compress" in command or "--compress" in command else "none"}
    return {}

# The facts about code that the driver links together, whose bitcode generates code in the link if it does not compile to objects.
_LINKED_TOGETHER = ["lto_hip_device_rdc", "lto_hip_rdc", "lto_openmp"]

def _of_processor(commands, key, processor):
    """Returns the facts that the commands for a processor show."""
    compilations = _compilations(commands, processor)
    if not compilations:
        return {}
    words = compilations[0]
    facts = {key: _starting(words, "-flto=") or ("full" if "-flto" in words else "objects" if key in _LINKED_TOGETHER and "-emit-obj" in words else "none")}
    if key == "lto_hip":
        facts |= _link(commands, processor)
    if key in ["lto_hip", "lto_openmp"]:
        facts["instruction_sets"] = "no" if _value_after(words, "-triple").startswith("amdgcn") else "yes"
        version = _starting(words, "-mcode-object-version=")
        if version:
            facts["code_object_version"] = version
    return facts

def facts_of_commands(commands, key, processors):
    """Returns the facts in the commands of the driver for one question.

    Args:
      commands: list of results of `arguments_of`.
      key: the fact about link-time optimization that the question is about.
      processors: list of the processors that it names, one of each family.

    Returns:
      a dict of facts. Those of a family are only there if they differ from those of the first processor.
    """
    first = {}
    facts = {}
    for processor in processors:
        own = _of_processor(commands, key, processor)
        if not first:
            first = own
        for name, value in own.items():
            if value != first.get(name):
                facts[name + " " + family_of(processor)] = value
    if key == "lto_hip":
        first = first | _packing(commands) | _compression(commands)
    return first | facts
