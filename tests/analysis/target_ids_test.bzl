"""Unit tests of target IDs and entry IDs."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//rules/private:target_ids.bzl", "target_ids")  # buildifier: disable=bzl-visibility

def _id(kind, text):
    target = target_ids.complete(kind, text, "test")
    return target_ids.entry_id(target.kind, target.triple, target.target_id)

def _complete_test_impl(ctx):
    env = unittest.begin(ctx)
    for kind, text, want in [
        ("hipv4", "gfx942", "hipv4-amdgcn-amd-amdhsa--gfx942"),
        ("hip", "gfx90a:xnack+", "hip-amdgcn-amd-amdhsa--gfx90a:xnack+"),
        ("hipv4", "gfx90a:xnack+:sramecc-", "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+"),
        ("hipv4", "gfx9-4-generic", "hipv4-amdgcn-amd-amdhsa--gfx9-4-generic"),
        ("hipv4", "amdgcnspirv", "hipv4-spirv64-amd-amdhsa--amdgcnspirv"),
        ("openmp", "gfx906", "openmp-amdgcn-amd-amdhsa--gfx906"),
        ("openmp", "sm_70", "openmp-nvptx64-nvidia-cuda-unknown-sm_70"),
        # Triples.
        ("openmp", "x86_64-pc-linux-gnu", "openmp-x86_64-pc-linux-gnu-"),
        ("hip", "amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx90a"),
        ("openmp", "amdgpu9.0a-amd-amdhsa--gfx90a", "openmp-amdgpu9.0a-amd-amdhsa--gfx90a"),
        # Whole entry IDs, in today's form and in older ones.
        ("", "hipv4-amdgcn-amd-amdhsa--gfx942", "hipv4-amdgcn-amd-amdhsa--gfx942"),
        ("hipv4", "hip-amdgcn-amd-amdhsa-unknown-gfx906", "hip-amdgcn-amd-amdhsa--gfx906"),
        ("hipv4", "hip-amdgcn-amd-amdhsa-gfx906:xnack-", "hip-amdgcn-amd-amdhsa--gfx906:xnack-"),
        ("hipv4", "openmp-x86_64-pc-linux-gnu", "openmp-x86_64-pc-linux-gnu-"),
        ("", "host-x86_64--linux-gnu", "host-x86_64-unknown-linux-gnu-"),
        ("", "host-x86_64-unknown-linux-gnu-", "host-x86_64-unknown-linux-gnu-"),
        ("", "openmp-nvptx64-nvidia-cuda--sm_70", "openmp-nvptx64-nvidia-cuda-unknown-sm_70"),
    ]:
        asserts.equals(env, want, _id(kind, text))
    return unittest.end(env)

complete_test = unittest.make(_complete_test_impl)

def _serves_test_impl(ctx):
    env = unittest.begin(ctx)
    for entry, request, want in [
        ("gfx906", "gfx906", True),
        ("gfx906", "gfx906:xnack+", True),
        ("gfx906:xnack+", "gfx906", False),
        ("gfx906:xnack+", "gfx906:xnack-", False),
        ("gfx906:xnack+", "gfx906:sramecc-:xnack+", True),
        ("gfx906:sramecc+:xnack+", "gfx906:xnack+", False),
        ("gfx906", "gfx908", False),
        ("hip-amdgcn-amd-amdhsa--gfx906", "hipv4-amdgcn-amd-amdhsa--gfx906", True),
        ("openmp-amdgcn-amd-amdhsa--gfx906", "hipv4-amdgcn-amd-amdhsa--gfx906", False),
        ("host-x86_64-unknown-linux-gnu-", "host-x86_64-unknown-linux-gnu-", True),
        ("host-x86_64-unknown-linux-gnu-", "host-aarch64-unknown-linux-gnu-", False),
        ("hip-amdgpu9.0a-amd-amdhsa--gfx90a", "gfx90a:xnack+", True),
        ("gfx90a", "hip-amdgpu-amd-amdhsa--gfx90a", True),
        ("hip-amdgpu9.0a-amd-amdhsa--gfx90a", "gfx942", False),
    ]:
        got = target_ids.serves(target_ids.complete("hipv4", entry, "test"), target_ids.complete("hipv4", request, "test"))
        asserts.equals(env, want, got, "{} for {}".format(entry, request))
    return unittest.end(env)

serves_test = unittest.make(_serves_test_impl)

def _canonical_test_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, "gfx90a:sramecc+:xnack-", target_ids.canonical("gfx90a:xnack-:sramecc+", "test"))
    asserts.equals(env, "gfx90a", target_ids.canonical("gfx90a", "test"))
    asserts.equals(env, "amdgcn-amd-amdhsa-", target_ids.runtime_triple("amdgpu9.0a-amd-amdhsa-"))
    asserts.equals(env, "spirv64-amd-amdhsa-", target_ids.runtime_triple("spirv64-amd-amdhsa-"))
    asserts.equals(env, "gfx90a_xnack+", target_ids.file_name("gfx90a:xnack+"))
    return unittest.end(env)

canonical_test = unittest.make(_canonical_test_impl)

def target_ids_tests(name):
    """Unit tests of the struct target_ids.

    Args:
      name: what the tests begin with.
    """
    unittest.suite(
        name,
        canonical_test,
        complete_test,
        serves_test,
    )
