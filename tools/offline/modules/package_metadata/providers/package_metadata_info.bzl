"""The provider of package_metadata."""

PackageMetadataInfo = provider(
    doc = "What a package says about itself.",
    fields = {
        "metadata": "File: the metadata, as JSON.",
        "purl": "string: the package URL.",
    },
)
