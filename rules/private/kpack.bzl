"""Attributes of rules that write kpack archives."""

# The attributes of a rule that moves device code to kpack archives.
KPACK_ATTRS = {
    "complete": attr.bool(
        doc = "Whether to also add code for a processor to the archives of its variants (`gfx90a:xnack-`) if a source has no code for the variant. HIP runtimes before the summer of 2026 require this.",
    ),
    "compress": attr.string(
        doc = "Compression of the device code in archives: `zstd` or `none`.",
        default = "zstd",
        values = ["none", "zstd"],
    ),
}
