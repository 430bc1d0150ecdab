"""Downloads that require a checksum."""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "get_auth")

# The attributes of a download, of tags as of repositories.
DOWNLOAD_ATTRS = {
    "auth_patterns": attr.string_dict(
        doc = "Formats of authorization headers by host name, for entries of `netrc`, as in `http_archive`.",
    ),
    "integrity": attr.string(
        doc = "Checksum of the download, such as `sha256-...`. If neither it nor `sha256` is set, the fetch fails and the error message shows the value.",
    ),
    "netrc": attr.string(
        doc = "Path of a `.netrc` file with credentials; the file in NETRC or the home directory by default. Bazel's credential helpers take precedence.",
    ),
    "sha256": attr.string(
        doc = "SHA-256 of the download, in hex.",
    ),
    "urls": attr.string_list(
        doc = "URLs to download from. The first one that responds is used.",
    ),
}

# The attributes of a download of an archive.
ARCHIVE_ATTRS = DOWNLOAD_ATTRS | {
    "strip_prefix": attr.string(
        doc = "The directory in the archive to extract.",
    ),
    "type": attr.string(
        doc = "Type of the archive, e.g. `tar.xz`. Required only if the URL does not end with the type.",
    ),
}

def _checked(result, tag, attributes):
    if attributes.sha256 or attributes.integrity:
        return
    fail("{}: {} has no sha256. The downloaded file has the following one; check that it is the right file, and add to the tag:\n    sha256 = {},".format(
        tag,
        attributes.urls[0],
        repr(result.sha256),
    ))

def download_program(repository_ctx, tag, output):
    """Downloads an executable file. Fails if the checksum is missing.

    Args:
      repository_ctx: the context of a repository rule with `DOWNLOAD_ATTRS`.
      tag: name of the tag in error messages.
      output: path of the file.
    """
    attributes = repository_ctx.attr
    result = repository_ctx.download(
        attributes.urls,
        output,
        auth = get_auth(repository_ctx, attributes.urls),
        executable = True,
        integrity = attributes.integrity,
        sha256 = attributes.sha256,
    )
    _checked(result, tag, attributes)

def download_archive(repository_ctx, tag, output = "", archive = None):
    """Downloads and extracts an archive. Fails if the checksum is missing.

    Args:
      repository_ctx: the context of a repository rule with `ARCHIVE_ATTRS`.
      tag: name of the tag in error messages.
      output: the directory to extract it to, which can have files.
      archive: struct with `urls`, `integrity`, `sha256`, `strip_prefix` and `type`; the attributes of the repository by default.
    """
    archive = archive or repository_ctx.attr
    result = repository_ctx.download_and_extract(
        archive.urls,
        output,
        auth = get_auth(repository_ctx, archive.urls),
        integrity = archive.integrity,
        sha256 = archive.sha256,
        stripPrefix = archive.strip_prefix,
        type = archive.type,
    )
    _checked(result, tag, archive)

def reproducible(repository_ctx):
    """Returns the result of a repository rule whose files depend on its attributes only.

    Args:
      repository_ctx: the context of the repository rule.

    Returns:
      a value for Bazel: since 8.3, repositories with it can be shared between workspaces.
    """
    return repository_ctx.repo_metadata(reproducible = True) if hasattr(repository_ctx, "repo_metadata") else None
