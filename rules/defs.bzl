"""The rules: `load("@rules_offload//rules:defs.bzl", "offload_bundle")`."""

load("//rules/private:hip_code_objects.bzl", _hip_code_objects = "hip_code_objects")
load("//rules/private:offload_bundle.bzl", _offload_bundle = "offload_bundle")
load("//rules/private:offload_unbundle.bzl", _offload_unbundle = "offload_unbundle")

hip_code_objects = _hip_code_objects
offload_bundle = _offload_bundle
offload_unbundle = _offload_unbundle
