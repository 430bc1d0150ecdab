"""Architectures.

The attribute `offload_archs` compiles the sources of a target for each architecture. [Settings](../settings.md#groups-of-architectures)
lists its groups, such as `mi300`. The names in this file are for targets whose sources or flags differ between architectures.
"""

load("//rules/private:choices.bzl", _if_arch = "if_arch", _requires_arch = "requires_arch")
load("//rules/private:offload_per_arch.bzl", _offload_per_arch = "offload_per_arch")

if_arch = _if_arch
offload_per_arch = _offload_per_arch
requires_arch = _requires_arch
