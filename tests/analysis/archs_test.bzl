"""Analysis tests of groups of architectures, of native, and of names that are no processors."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//rules:defs.bzl", "hip_code_objects", "hip_library", "offload_bundle", "offload_images", "offload_link", "offload_per_arch", "offload_register", "offload_unbundle", "openmp_library")
load("//rules/private:arch_groups.bzl", "ARCH_GROUPS", "expand_archs")  # buildifier: disable=bzl-visibility
load("//rules/private:processors.bzl", "PROCESSORS")  # buildifier: disable=bzl-visibility
load(":testing.bzl", "actions_test", "failure_test", "provides_test")

def _groups_test_impl(ctx):
    env = unittest.begin(ctx)
    for name, members in ARCH_GROUPS.items():
        for member in members:
            asserts.true(env, member in PROCESSORS, "{} has {}, which LLVM does not know".format(name, member))
    for names, native, want in [
        (["gfx90a", "gfx942"], None, ["gfx90a", "gfx942"]),
        (["gfx90a", "gfx90a"], None, ["gfx90a", "gfx90a"]),
        (["mi300", "rdna4"], None, ["gfx942", "gfx1200", "gfx1201"]),
        (["mi300", "cdna3", "gfx942"], None, ["gfx942"]),
        (["gfx942", "mi300"], None, ["gfx942"]),
        (["gfx1100", "native"], ["gfx90a", "gfx1100"], ["gfx90a", "gfx1100"]),
        (["native"], None, ["native"]),
    ]:
        asserts.equals(env, want, expand_archs(names, native))
    return unittest.end(env)

groups_test = unittest.make(_groups_test_impl)

# Seven GPUs that a select each adds: 128 values of the attribute.
_EACH = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"]

def _selected_archs():
    """Targets whose architectures are selects with more values than Bazel computes defaults for."""
    archs = []
    for arch in _EACH:
        native.config_setting(name = "without_" + arch, define_values = {"without": arch})
        archs += select({":without_" + arch: [], "//conditions:default": [arch]})
    branches = {"//conditions:default": ["gfx942"]}
    for i in range(64):
        native.config_setting(name = "branch_{}".format(i), define_values = {"branch": str(i)})
        branches[":branch_{}".format(i)] = ["gfx90a:xnack" + ("+" if i % 2 else "-")] + _EACH[:i % len(_EACH)]
    hip_code_objects(name = "archs_selects", srcs = ["a.hip"], offload_archs = archs, tags = ["manual"])
    provides_test(
        name = "archs_selects_test",
        files = ["archs_selects/{}.co".format(arch) for arch in _EACH],
        target = ":archs_selects",
    )
    hip_code_objects(name = "archs_branches", srcs = ["a.hip"], offload_archs = select(branches), tags = ["manual"])
    provides_test(
        name = "archs_branches_test",
        files = ["archs_branches/gfx942.co"],
        target = ":archs_branches",
    )
    offload_unbundle(name = "archs_targets", bundle = ":bundle", tags = ["manual"], targets = select(branches))
    provides_test(
        name = "archs_targets_test",
        files = ["archs_targets/gfx942.co"],
        target = ":archs_targets",
    )

def archs_tests(name):
    """Architectures as people write them.

    Args:
      name: name of the test suite.
    """
    hip_code_objects(
        name = "archs_group",
        srcs = ["a.hip"],
        offload_archs = ["cdna3", "mi300", "rdna4"],
        tags = ["manual"],
    )
    hip_code_objects(
        name = "archs_srcs",
        srcs = ["a.hip", "sub/a.hip", ":archs_generated"],
        arch_srcs = {
            "gfx90a": ["sub/a.hip"],
            "gfx942:xnack+": ["sub/a.hip"],
            "//conditions:default": [":archs_generated"],
        },
        offload_archs = ["gfx90a:xnack+", "gfx942"],
        tags = ["manual"],
    )
    native.genrule(
        name = "archs_generated",
        outs = ["other.hip"],
        cmd = "touch $@",
        tags = ["manual"],
    )
    groups_test(name = "archs_groups_test")
    hip_code_objects(
        name = "archs_of_setting",
        srcs = ["a.hip"],
        tags = ["manual"],
    )
    offload_per_arch(
        name = "archs_per_arch",
        images = [":archs_of_setting"],
        offload_archs = ["gfx1201", "mi300", "rdna4"],
        tags = ["manual"],
    )
    provides_test(
        name = "archs_per_arch_test",
        images = [
            "hipv4-amdgcn-amd-amdhsa--gfx942 archs_of_setting/gfx942.co",
            "hipv4-amdgcn-amd-amdhsa--gfx1200 archs_of_setting/gfx1200.co",
            "hipv4-amdgcn-amd-amdhsa--gfx1201 archs_of_setting/gfx1201.co",
        ],
        target = "archs_per_arch",
    )

    # Each source of a library has a bundle of its own, with the architectures that it is for; all have host code.
    hip_library(
        name = "archs_library",
        srcs = ["a.hip", "sub/a.hip", ":archs_generated"],
        arch_srcs = {
            "gfx1100": ["//tests/analysis:archs_generated"],
            "gfx90a": [":sub/a.hip"],
        },
        offload_archs = ["gfx90a", "gfx942"],
        tags = ["manual"],
    )
    for name, source, entries in [
        ("all", "a", ["--entry=hipv4-amdgcn-amd-amdhsa--gfx90a=BIN/tests/analysis/archs_library/gfx90a/a.co", "--entry=hipv4-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/archs_library/gfx942/a.co"]),
        ("some", "sub/a", ["--entry=host-x86_64-unknown-linux-gnu-= --entry=hipv4-amdgcn-amd-amdhsa--gfx90a=BIN/tests/analysis/archs_library/gfx90a/sub/a.co"]),
        ("none", "other", ["--entry=host-x86_64-unknown-linux-gnu-="]),
    ]:
        actions_test(
            name = "archs_library_{}_test".format(name),
            argv = entries,
            count = 3,
            mnemonic = "OffloadBundle",
            not_in_argv = [] if name == "all" else ["--entry=hipv4-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/archs_library/gfx942/{}.co".format(source)],
            output = "archs_library/{}.hipfb".format(source),
            target = "archs_library",
        )
    actions_test(
        name = "archs_library_host_test",
        argv = ["--offload-host-only"],
        count = 3,
        mnemonic = "OffloadHipHostCompile",
        output = "archs_library/host/sub/a.o",
        target = "archs_library",
    )
    hip_library(
        name = "archs_library_rdc",
        srcs = ["a.hip", "sub/a.hip", ":archs_generated"],
        arch_srcs = {
            "gfx90a": ["sub/a.hip"],
            "//conditions:default": ["archs_generated"],
        },
        offload_archs = ["gfx90a", "gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    actions_test(
        name = "archs_library_rdc_test",
        argv = ["-Xlinker BIN/tests/analysis/archs_library_rdc/gfx942/a.bc -Xlinker BIN/tests/analysis/archs_library_rdc/gfx942/other.bc"],
        mnemonic = "OffloadDeviceLink",
        not_in_argv = ["BIN/tests/analysis/archs_library_rdc/gfx942/sub/a.bc"],
        output = "archs_library_rdc/gfx942.co",
        target = "archs_library_rdc",
    )
    provides_test(
        name = "archs_group_test",
        images = [
            "hipv4-amdgcn-amd-amdhsa--gfx942 archs_group/gfx942.co",
            "hipv4-amdgcn-amd-amdhsa--gfx1200 archs_group/gfx1200.co",
            "hipv4-amdgcn-amd-amdhsa--gfx1201 archs_group/gfx1201.co",
        ],
        target = "archs_group",
    )
    actions_test(
        name = "archs_srcs_test",
        argv = ["BIN/tests/analysis/archs_srcs/gfx90a_xnack+/a.o BIN/tests/analysis/archs_srcs/gfx90a_xnack+/sub/a.o"],
        mnemonic = "OffloadDeviceLink",
        output = "archs_srcs/gfx90a_xnack+.co",
        target = "archs_srcs",
    )
    actions_test(
        name = "archs_srcs_excluded_test",
        argv = ["BIN/tests/analysis/archs_srcs/gfx942/a.o BIN/tests/analysis/archs_srcs/gfx942/other.o"],
        mnemonic = "OffloadDeviceLink",
        not_in_argv = ["BIN/tests/analysis/archs_srcs/gfx942/sub/a.o"],
        output = "archs_srcs/gfx942.co",
        target = "archs_srcs",
    )
    _selected_archs()
    tests = [
        "archs_branches_test",
        "archs_group_test",
        "archs_groups_test",
        "archs_library_all_test",
        "archs_library_host_test",
        "archs_library_none_test",
        "archs_library_rdc_test",
        "archs_library_some_test",
        "archs_per_arch_test",
        "archs_selects_test",
        "archs_srcs_excluded_test",
        "archs_srcs_test",
        "archs_targets_test",
    ]
    for test, wanted, archs in [
        ("unknown", "{}: hip_code_objects: offload_archs: \"gfx90b\" is not a processor of LLVM: did you mean gfx90a? If your compiler supports it, write a full entry ID, such as hipv4-amdgcn-amd-amdhsa--gfx90b", ["gfx90b"]),
        ("case", "\"GFX942\" is not a processor of LLVM: did you mean gfx942?", ["GFX942"]),
        ("near_group", "\"mi30\" is not a processor of LLVM: did you mean mi300?", ["mi30"]),
        ("far", "\"radeon\" is not a processor of LLVM, such as gfx90a, gfx942 or sm_90. If", ["radeon"]),
        ("list", "\"gfx90a,gfx942\" is a list in one string, expected [\"gfx90a\", \"gfx942\"]", ["gfx90a,gfx942"]),
        ("spaces", "\"gfx90a gfx942\" is a list in one string, expected [\"gfx90a\", \"gfx942\"]", ["gfx90a gfx942"]),
        ("feature", "\"gfx942:xnak+\": gfx942 does not have the feature xnak: it has sramecc and xnack", ["gfx942:xnak+"]),
        ("no_features", "\"gfx1100:xnack+\": gfx1100 does not have the feature xnack: target IDs of it have no features", ["gfx1100:xnack+"]),
        ("group_feature", "\"mi300\" is a group of architectures", ["mi300:xnack+"]),
    ]:
        failure_test(
            name = "archs_{}_test".format(test),
            srcs = ["a.hip"],
            message = wanted,
            offload_archs = archs,
            rule = hip_code_objects,
        )
        tests.append("archs_{}_test".format(test))
    for test, message, rule, attributes in [
        ("archs_host_test", "{}: openmp_library: offload_archs: \"host\" is not a GPU: name a GPU, such as gfx942, or for OpenMP on the CPU, its triple, such as x86_64-unknown-linux-gnu", openmp_library, {"offload_archs": ["host"], "srcs": ["a.c"]}),
        ("archs_cpu_test", "\"x86_64\" is not a GPU", openmp_library, {"offload_archs": ["x86_64"], "srcs": ["a.c"]}),
        ("archs_copts_test", "{}: copts: \"--offload-arch=gfx90a\": architectures belong in offload_archs", hip_code_objects, {"copts": ["--offload-arch=gfx90a"], "offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        ("archs_device_copts_test", "{}: device_copts: \"--cuda-gpu-arch=sm_70\": architectures belong in offload_archs", hip_library, {"device_copts": ["--cuda-gpu-arch=sm_70"], "offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        ("archs_arch_copts_test", "arch_copts: \"gfx90b\" is not a processor of LLVM: did you mean gfx90a?", hip_code_objects, {"arch_copts": {"gfx90b": ["-O2"]}, "offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        ("archs_file_test", "{}: offload_bundle: images: //tests/analysis:sub/a,b.co is a file without a target: wrap files in offload_images, e.g. offload_images(name = \"code\", srcs = {\"sub/a,b.co\": \"gfx942\"})", offload_bundle, {"images": ["sub/a,b.co"]}),
        ("archs_file_openmp_test", "{}: offload_register: images: //tests/analysis:a.h is a file", offload_register, {"images": ["a.h"], "kind": "openmp"}),
        ("archs_images_test", "{}: offload_images: srcs: \"gfx9o0\" is not a processor of LLVM: did you mean gfx900?", offload_images, {"srcs": {"a.h": "gfx9o0"}}),
        ("archs_no_source_test", "{}: hip_code_objects: no source for gfx942: arch_srcs has all of srcs, and no source for it; add one, or leave gfx942 out of offload_archs", hip_code_objects, {"arch_srcs": {"gfx90a": ["a.hip"]}, "offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        ("archs_other_srcs_test", "{}: hip_code_objects: arch_srcs: \"b.hip\" is not in srcs: add it to srcs, which has all sources, or correct the label", hip_code_objects, {"arch_srcs": {"gfx90a": ["b.hip"]}, "offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        ("archs_key_srcs_test", "{}: hip_code_objects: arch_srcs: \"!gfx90a\" is not a target: name a target ID like gfx90a:xnack+, a processor like gfx90a, or a triple", hip_code_objects, {"arch_srcs": {"!gfx90a": ["a.hip"]}, "offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        ("archs_c_srcs_test", "{}: hip_library: arch_srcs: tests/analysis/a.c has the extension .c, expected .hip or .cu or .cpp or .cc or .cxx or .c++ or .C: files of other types are not for an architecture", hip_library, {"arch_srcs": {"gfx90a": ["a.c"]}, "offload_archs": ["gfx942"], "srcs": ["a.c", "a.hip"]}),
        ("archs_linkopts_test", "{}: device_linkopts: \"gfx90a=-O2\" is for some architectures, expected a flag for all; set arch_linkopts = {\"gfx90a\": [\"-O2\"]}", hip_code_objects, {"device_linkopts": ["gfx90a=-O2"], "offload_archs": ["gfx942"], "srcs": ["a.hip"]}),
        ("archs_arch_linkopts_test", "{}: arch_linkopts: \"gfx90b\" is not a processor of LLVM: did you mean gfx90a?", offload_link, {"arch_linkopts": {"gfx90b": ["-O2"]}, "srcs": ["host.o"]}),
    ]:
        failure_test(
            name = test,
            message = message,
            rule = rule,
            **attributes
        )
        tests.append(test)
    native.test_suite(
        name = name,
        tests = tests,
    )
