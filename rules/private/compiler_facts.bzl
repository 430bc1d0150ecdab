"""What a clang does by default: its driver is asked in repository rules. What it does not answer depends on its release.

Facts are a dict of strings. A key can be followed by a space and a family of processors, such as `gfx12`, whose value differs.
"""

load(":clang_words.bzl", "arguments_of", "facts_of_commands", "family_of")

# The keys, and what they mean: the doc of the attribute.
FACTS = {
    "code_object_version": "the version of AMD's code objects, if the driver passes one",
    "compression": "`zstd` or `none`: compression of bundles; the rules have a setting of their own",
    "config": "flags in the configuration files of the compiler",
    "instruction_sets": "`yes` if triples of AMD GPUs contain the instruction set, such as `amdgpu9.0a-amd-amdhsa`",
    "link_flags": "flags of the linker for HIP, one or several words, which affect code that it generates",
    "linker": "the program that the driver calls for links of HIP",
    "lto_hip": "link-time optimization of HIP, `none` or `full`",
    "lto_hip_device": "the same with `--offload-device-only`",
    "lto_hip_device_rdc": "the same with `--offload-device-only -fgpu-rdc`",
    "lto_hip_rdc": "the same with `-fgpu-rdc`, or `objects` if compilations generate code",
    "lto_openmp": "the same of OpenMP for AMD GPUs",
    "packing": "`bundler` or `offload-binary`: the container of HIP's images; the rules have their own",
    "spirv": "`backend` or `translator`: what makes SPIR-V of portable code",
    "spirv_missing": "the name of the translator, if the driver does not find it",
    "vendor": "`amd`, or empty for LLVM's own releases and those that follow them",
    "version": "the first line of `clang --version`",
}

_AMD = "amd"

# From this release on, clang's driver optimizes device code of AMD GPUs at link time. AMD's compiler had the number 23 without it.
_FULL_SINCE = {_AMD: 24}
_FULL_SINCE_OF_LLVM = 23

# The releases that generate code for parts of a HIP program in parallel, and the last one that makes symbols internal in links.
_PARTITIONS_SINCE = 21
_PARTITIONS_UNTIL = 22
_INTERNALIZE_UNTIL = 22

# The first release whose triples of AMD GPUs have their instruction set.
_INSTRUCTION_SETS_SINCE = 24

INTERNALIZE = "-plugin-opt=-amdgpu-internalize-symbols"

def check_facts(facts, where):
    """Fails if facts that somebody declared have an unknown key.

    Args:
      facts: a dict of facts.
      where: prefix of error messages.
    """
    for key in facts:
        if key.split(" ")[0] not in FACTS:
            fail("{}: facts: found {}, expected one of {}".format(where, repr(key), ", ".join(FACTS)))

def fact(toolchain, key, target = None):
    """Returns what a compiler does.

    Args:
      toolchain: a struct with facts and release (0 if it is unknown), such as the result of `device_toolchain_of`.
      key: a key of `FACTS`.
      target: struct returned by `target_ids.complete`, for a fact that can differ between GPUs.

    Returns:
      a string: what the compiler answered or its toolchain declares, or else what is assumed of its release; empty if
      nothing is known.
    """
    if target:
        of_family = toolchain.facts.get(key + " " + family_of(target.target_id.split(":")[0]))
        if of_family != None:
            return of_family
    known = toolchain.facts.get(key)
    return known if known != None else _assumed(key, toolchain.release, toolchain.facts.get("vendor", ""))

def _assumed(key, release, vendor):
    if key == "lto_hip_device":
        return "none"
    if key.startswith("lto_"):
        return "full" if not release or release >= _FULL_SINCE.get(vendor, _FULL_SINCE_OF_LLVM) else "none"
    if key == "link_flags":
        flags = [INTERNALIZE] if release and release <= _INTERNALIZE_UNTIL else []
        return " ".join(flags + (["--lto-partitions=8"] if _PARTITIONS_SINCE <= release and release <= _PARTITIONS_UNTIL else []))
    if key == "instruction_sets":
        return "yes" if release >= _INSTRUCTION_SETS_SINCE else "no"
    return ""

def describe_facts(toolchain):
    """Returns the facts of a compiler for a message.

    Args:
      toolchain: as for `fact`.

    Returns:
      a string of one line.
    """
    facts = toolchain.facts
    version = facts.get("version") or "clang {}".format(toolchain.release or "of an unknown release")
    asked = ["{} = {}".format(key, value) for key, value in sorted(facts.items()) if key != "version" and value]
    assumed = ["{} = {}".format(key, fact(toolchain, key)) for key in sorted(FACTS) if key not in facts and fact(toolchain, key)]
    return version + "".join([
        "; {}: {}".format(title, ", ".join(list))
        for title, list in [("the driver answers or the toolchain declares", asked), ("assumed by its release", assumed)]
        if list
    ])

# The questions.

_HIP = ["-x", "hip", "-nogpuinc", "-nogpulib", "-O2"]
_QUESTIONS = {
    "lto_hip": _HIP + ["-c"],
    "lto_hip_device": _HIP + ["--offload-device-only", "-c"],
    "lto_hip_device_rdc": _HIP + ["--offload-device-only", "-fgpu-rdc", "-c"],
    "lto_hip_rdc": _HIP + ["-fgpu-rdc", "--hip-link"],
    "lto_openmp": ["-x", "c", "-fopenmp", "-nogpulib", "-O2"],
}
_SPIRV = ["--target=spirv64-amd-amdhsa", "-nogpulib", "-x", "ir"]

# The processor to ask for, of a family whose others it stands for.
_USUAL = ["gfx90a", "gfx1030", "gfx1100", "gfx1201", "gfx9-generic"]

# Commands that users set for the driver in their environment, which actions do not have.
_ENVIRONMENT = {"CCC_OVERRIDE_OPTIONS": ""}

def _ask(repository_ctx, clang, arguments):
    """Returns what the driver prints for arguments, as lines; None if it fails."""
    answer = repository_ctx.execute([clang, "-###"] + arguments + ["/dev/null"], environment = _ENVIRONMENT)
    return answer.stderr.splitlines() if answer.return_code == 0 else None

def _asked_processors(processors):
    """Returns one processor of each family."""
    found = {}
    for processor in [usual for usual in _USUAL if usual in processors] + processors:
        family = family_of(processor)
        if family not in found:
            found[family] = processor
    return found.values()

_CONFIGURATION = "Configuration file: "

def ask_compiler(repository_ctx, clang, processors):
    """Asks the driver of a clang what it does.

    Args:
      repository_ctx: the context of a repository rule.
      clang: path of the program.
      processors: list of the AMD GPUs that it supports.

    Returns:
      a struct: facts, a dict that is empty if the program does not run on this machine; configuration, list of the paths of its
      configuration files; translator, the path of the program that makes SPIR-V, empty if it is not called or not found.
    """
    version = repository_ctx.execute([clang, "--version"])
    if version.return_code != 0 or not version.stdout:
        return struct(configuration = [], facts = {}, translator = "")
    first = version.stdout.splitlines()[0]
    facts = {"vendor": _AMD if "AMD clang" in first or "roc-" in first else "", "version": first}
    asked = _asked_processors(processors or ["gfx90a"])
    configuration = {}
    for key, arguments in _QUESTIONS.items():
        lines = _ask(repository_ctx, clang, arguments + ["--offload-arch=" + processor for processor in asked])
        if lines == None:
            continue
        for line in lines:
            if line.startswith(_CONFIGURATION):
                configuration[line.removeprefix(_CONFIGURATION)] = None
        answers = facts_of_commands([arguments_of(line) for line in lines if line.startswith(" \"")], key, asked)
        for name, value in answers.items():
            # The first question decides about what all answer, and families only differ from its answer.
            if name.split(" ")[0] == key or name not in facts:
                facts[name] = value
    lines = _ask(repository_ctx, clang, _SPIRV)
    translator = ""
    if lines != None:
        commands = [arguments_of(line) for line in lines if line.startswith(" \"")]
        called = [command[0] for command in commands if "llvm-spirv" in command[0].rpartition("/")[2]]
        facts["spirv"] = "translator" if called else "backend"
        if called and "/" in called[0]:
            translator = called[0]
        elif called:
            facts["spirv_missing"] = called[0]
    words = [word for path in configuration for word in _words_of_file(repository_ctx, path)]
    if words:
        facts["config"] = " ".join(words)
    return struct(configuration = configuration.keys(), facts = facts, translator = translator)

def _words_of_file(repository_ctx, path):
    lines = [line.strip() for line in repository_ctx.read(path).splitlines()]
    return [word for line in lines if not line.startswith("#") for word in line.split(" ") if word]
