"""Repositories with the `offload` program and its toolchains.

One repository for each platform has the program; another has the toolchains. Bazel reads the toolchains in every build, and
fetches the program of a platform only if an action uses it.
"""

load(":download.bzl", "DOWNLOAD_ATTRS", "download_program", "reproducible")
load(":platforms.bzl", "constraints_of")
load(":release.bzl", "PROGRAMS")

# The platforms that the program is built for from source, and their names in Go.
SOURCE_PLATFORMS = {
    "linux-aarch64": ("linux", "arm64"),
    "linux-x86_64": ("linux", "amd64"),
    "macos-aarch64": ("darwin", "arm64"),
    "macos-x86_64": ("darwin", "amd64"),
}

def released_program(tag, platform, name):
    """Returns the download of the program that was released with these rules.

    Args:
      tag: name of the tag in error messages.
      platform: `OS-CPU`.
      name: name of the repository in error messages.

    Returns:
      struct with `urls` and `sha256`.
    """
    program = PROGRAMS.get(platform)
    if not program:
        fail("{}: {} has no urls, and {}: set urls and sha256, or remove the tag".format(
            tag,
            repr(name),
            "this release has no program for {}, but for {}".format(platform, ", ".join(PROGRAMS)) if PROGRAMS else "these rules are a checkout, not a release",
        ))
    return struct(sha256 = program["sha256"], urls = [program["url"]])

_PROGRAM = """load("{toolchains}", "offload_program_toolchain", "offload_target_program_toolchain")

offload_program_toolchain(
    name = "program",
    program = "offload",
    visibility = ["//visibility:public"],
)

offload_target_program_toolchain(
    name = "target_program",
    program = "offload",
    visibility = ["//visibility:public"],
)
"""

def _build_file(repository_ctx):
    repository_ctx.file("BUILD.bazel", _PROGRAM.format(toolchains = Label("//rules:toolchains.bzl")))

def _prebuilt_program_impl(repository_ctx):
    download_program(repository_ctx, "offload.prebuilt", "offload")
    _build_file(repository_ctx)
    return reproducible(repository_ctx)

prebuilt_program = repository_rule(
    implementation = _prebuilt_program_impl,
    doc = "A prebuilt `offload` program.",
    attrs = DOWNLOAD_ATTRS,
)

# The program is one static file that does not depend on the machine that builds it.
_GO_BUILD = ["build", "-trimpath", "-buildvcs=false"]
_GO_LINK = "-ldflags=-s -w -buildid="
_GO_ENTRY = {"linux": " -E offload_entry"}  # see cmd/offload/entry_linux.go
_GO_ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOAMD64": "v1",
    "GOARM64": "v8.0",
    "GOEXPERIMENT": "",
    "GOFLAGS": "-mod=readonly",
    "GOWORK": "off",
}
_GO_TIMEOUT = 3600

_NO_GO = """offload: these rules are not a release, or offload.from_source() is set, so the program is built from source. \
That requires Go 1.21 or newer, and go is not on PATH.
Install Go, or set offload.from_source(go = "@my_sdk//:bin/go"), or use a program that is already built: offload.prebuilt(...)"""

_BUILDING = "offload: Go builds the program for {system}/{cpu} from source: a minute or two the first time, while analysis waits. A release or offload.prebuilt(...) needs no build"

_GO_FAILED = """offload: the program was not built from the sources in {root}: `go build` failed:
{output}
Go fetches the modules of go.mod from the proxy in GOPROXY (--repo_env=GOPROXY=URL). To use a program that is already built, see offload.prebuilt in docs/toolchains.md"""

def _built_program_impl(repository_ctx):
    module = Label("//:go.mod")
    root = repository_ctx.path(module).dirname
    repository_ctx.watch(module)
    repository_ctx.watch(Label("//:go.sum"))
    for folder in ["cmd", "engine", "installed", "internal", "worker"]:
        repository_ctx.watch_tree(root.get_child(folder))
    go = repository_ctx.path(repository_ctx.attr.go) if repository_ctx.attr.go else repository_ctx.which("go")
    if not go:
        fail(_NO_GO)
    system, cpu = SOURCE_PLATFORMS[repository_ctx.attr.platform]
    environment = _GO_ENVIRONMENT | {"GOARCH": cpu, "GOOS": system}
    if not repository_ctx.getenv("HOME"):
        # Where Go keeps modules and compiled packages.
        environment |= {"GOCACHE": str(repository_ctx.path(".go/cache")), "GOPATH": str(repository_ctx.path(".go"))}
    repository_ctx.report_progress("building the program for {}/{}".format(system, cpu))

    # Without a terminal, Bazel prints no progress of repositories.
    # buildifier: disable=print
    print(_BUILDING.format(cpu = cpu, system = system))
    result = repository_ctx.execute(
        [go] + _GO_BUILD + [_GO_LINK + _GO_ENTRY.get(system, ""), "-o", repository_ctx.path("offload"), "./cmd/offload"],
        environment = environment,
        timeout = _GO_TIMEOUT,
        working_directory = str(root),
    )
    if result.return_code != 0:
        fail(_GO_FAILED.format(output = (result.stderr + result.stdout).strip(), root = root))
    _build_file(repository_ctx)

built_program = repository_rule(
    implementation = _built_program_impl,
    doc = """The `offload` program, built from the sources of these rules, once for each execution platform.

Go builds it here, not in actions of rules_go: these would build it once for each configuration that uses the rules, and
workspaces would load rules_go.""",
    attrs = {
        "go": attr.label(allow_single_file = True, doc = "The go program; the one on PATH by default."),
        "platform": attr.string(mandatory = True, values = SOURCE_PLATFORMS.keys(), doc = "`OS-CPU`."),
    },
    environ = ["GOPROXY", "GOROOT", "GOTOOLCHAIN"],
)

_TOOLCHAINS = """toolchain(
    name = "{platform}_toolchain",
    exec_compatible_with = {constraints},
    toolchain = "@{program}//:program",
    toolchain_type = "{program_type}",
)

toolchain(
    name = "{platform}_target_toolchain",
    target_compatible_with = {constraints},
    toolchain = "@{program}//:target_program",
    toolchain_type = "{target_program_type}",
)
"""

def _program_toolchains_impl(repository_ctx):
    repository_ctx.file("BUILD.bazel", "\n".join([
        _TOOLCHAINS.format(
            constraints = repr(constraints_of(platform)),
            platform = platform,
            program = program,
            program_type = Label("//rules/toolchain:program_type"),
            target_program_type = Label("//rules/toolchain:target_program_type"),
        )
        for platform, program in repository_ctx.attr.programs.items()
    ]))
    return reproducible(repository_ctx)

program_toolchains = repository_rule(
    implementation = _program_toolchains_impl,
    doc = "The toolchains of programs for several platforms.",
    attrs = {
        "programs": attr.string_dict(mandatory = True, doc = "From `OS-CPU` to the name of the repository with the program."),
    },
)
