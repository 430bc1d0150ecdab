"""Bundles.

Rules that produce images provide `OffloadImagesInfo`, and any attribute `images` accepts their targets: code objects in an
offload binary, a `hip_library` in a bundle, or a bundle in another bundle.
"""

load("//rules/private:offload_archive.bzl", _offload_archive = "offload_archive")
load("//rules/private:offload_binary.bzl", _offload_binary = "offload_binary")
load("//rules/private:offload_bundle.bzl", _offload_bundle = "offload_bundle")
load("//rules/private:offload_extract.bzl", _offload_extract = "offload_extract")
load("//rules/private:offload_images.bzl", _offload_images = "offload_images")
load("//rules/private:offload_unbundle.bzl", _offload_unbundle = "offload_unbundle")

offload_archive = _offload_archive
offload_binary = _offload_binary
offload_bundle = _offload_bundle
offload_extract = _offload_extract
offload_images = _offload_images
offload_unbundle = _offload_unbundle
