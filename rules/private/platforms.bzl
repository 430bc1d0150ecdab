"""Names of platforms, and their constraints, for repositories."""

# From the names of the Java runtime of Bazel to those of @platforms.
_SYSTEMS = {"linux": "linux", "mac os x": "macos"}
_CPUS = {
    "aarch64": "aarch64",
    "amd64": "x86_64",
    "arm64": "aarch64",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
    "x86_64": "x86_64",
}

def platform_name(os, cpu):
    """Returns the name of a platform in tags: `OS-CPU`.

    Args:
      os: name of a constraint of `@platforms//os`.
      cpu: name of a constraint of `@platforms//cpu`.

    Returns:
      a string.
    """
    return "{}-{}".format(os, cpu)

def constraints_of(platform):
    """Returns the constraints of a platform.

    Args:
      platform: `OS-CPU`.

    Returns:
      list of labels, as strings.
    """
    os, _, cpu = platform.partition("-")
    return [str(Label("@platforms//os:" + os)), str(Label("@platforms//cpu:" + cpu))]

def repository_of(name, platform):
    """Returns the name of a repository for one of several platforms.

    Args:
      name: prefix of the name.
      platform: `OS-CPU`.

    Returns:
      a string.
    """
    return "{}_{}".format(name, platform.replace("-", "_"))

def host_constraints(os):
    """Returns the constraints of the machine on which Bazel runs, for programs of this machine.

    Args:
      os: `repository_ctx.os`.

    Returns:
      list of labels, as strings: the constraints of an execution platform that can run the programs. If the machine is
      unknown, no platform has them.
    """
    name = os.name.lower()
    system = "windows" if name.startswith("windows") else _SYSTEMS.get(name)
    cpu = _CPUS.get(os.arch)
    return constraints_of(platform_name(system, cpu)) if system and cpu else [str(Label("@platforms//:incompatible"))]
