"""Downloads that require a checksum, and the execution platforms of their programs."""

# The attributes of a repository with a toolchain.
PLATFORM_ATTRS = {
    "cpu": attr.string(mandatory = True, doc = "Constraint of `@platforms//cpu`."),
    "os": attr.string(mandatory = True, doc = "Constraint of `@platforms//os`."),
}

def constraints_of(os, cpu):
    """Returns the execution platform of a toolchain.

    Args:
      os: name of a constraint of `@platforms//os`.
      cpu: name of a constraint of `@platforms//cpu`.

    Returns:
      list of labels, as strings.
    """
    return [str(Label("@platforms//os:" + os)), str(Label("@platforms//cpu:" + cpu))]

def platform_constraints(repository_ctx):
    """Returns the execution platform of the toolchain in a repository.

    Args:
      repository_ctx: the context of a repository rule with `PLATFORM_ATTRS`.

    Returns:
      list of labels, as strings.
    """
    return constraints_of(repository_ctx.attr.os, repository_ctx.attr.cpu)

download_attrs = {
    "sha256": attr.string(doc = "SHA-256 of the download, in hex."),
    "urls": attr.string_list(mandatory = True, doc = "URLs to download from."),
}

def download_checked(repository_ctx, tag, output = "", strip_prefix = "", type = "", archive = True):
    """Downloads a file, or downloads and extracts an archive. Fails if the checksum is missing.

    Args:
      repository_ctx: the context of a repository rule with `download_attrs`.
      tag: name of the tag in error messages.
      output: path of the file, which becomes executable; for an archive, the directory to extract it to.
      strip_prefix: the directory in the archive to extract.
      type: type of the archive.
      archive: whether the download is an archive.
    """
    attributes = repository_ctx.attr
    if not archive:
        result = repository_ctx.download(attributes.urls, output, sha256 = attributes.sha256, executable = True)
    else:
        result = repository_ctx.download_and_extract(attributes.urls, output, sha256 = attributes.sha256, stripPrefix = strip_prefix, type = type)
    if not attributes.sha256:
        fail("{}: {} has no sha256. The downloaded file has the following one; check that it is the right file, and add to the tag:\n    sha256 = {},".format(
            tag,
            attributes.urls[0],
            repr(result.sha256),
        ))
