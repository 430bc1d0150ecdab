"""The rule of package_metadata."""

load("//providers:package_metadata_info.bzl", "PackageMetadataInfo")

def _package_metadata_impl(ctx):
    metadata = ctx.actions.declare_file(ctx.label.name + ".package-metadata.json")
    ctx.actions.write(metadata, json.encode({
        "label": str(ctx.label),
        "purl": ctx.attr.purl,
    }))
    return [
        DefaultInfo(files = depset([metadata])),
        PackageMetadataInfo(metadata = metadata, purl = ctx.attr.purl),
    ]

_package_metadata = rule(
    implementation = _package_metadata_impl,
    attrs = {
        "purl": attr.string(mandatory = True, doc = "The package URL."),
    },
    provides = [PackageMetadataInfo],
)

# buildifier: disable=unused-variable
def package_metadata(name, purl, attributes = [], visibility = None, **kwargs):
    """Declares what a package says about itself.

    Args:
      name: name of the target.
      purl: the package URL.
      attributes: accepted and not used.
      visibility: visibility of the target.
      **kwargs: further attributes.
    """

    # A package's default applicable_licenses is often this very target: it would depend on itself.
    kwargs["applicable_licenses"] = []
    _package_metadata(
        name = name,
        purl = purl,
        visibility = visibility,
        **kwargs
    )
