"""Device code in programs.

`hip_library` and `openmp_library` do not require these rules. A `cc_binary` depends on their targets.
"""

load("//rules/private:offload_cc_data.bzl", _offload_cc_data = "offload_cc_data")
load("//rules/private:offload_embed.bzl", _offload_embed = "offload_embed")
load("//rules/private:offload_link.bzl", _offload_link = "offload_link")
load("//rules/private:offload_register.bzl", _offload_register = "offload_register")

offload_cc_data = _offload_cc_data
offload_embed = _offload_embed
offload_link = _offload_link
offload_register = _offload_register
