"""Analysis tests of offload_bundle and offload_unbundle."""

load("//rules:defs.bzl", "offload_archive", "offload_bundle", "offload_unbundle", "offload_unbundle_archive")
load(":fixtures.bzl", "bad_provider", "images")
load(":testing.bzl", "actions_test", "failure_test", "provides_test")

def bundle_tests(name):
    """Actions, providers and failures of offload_bundle and offload_unbundle.

    Args:
      name: name of the test suite.
    """
    for fixture, targets in {
        "gfx90a_and_gfx942": ["gfx90a", "gfx942"],
        "gfx90a_xnack": ["gfx90a:xnack+"],
        "gfx942": ["gfx942"],
        "none": [],
        "xnacks": ["gfx90a:xnack+", "gfx90a:xnack-"],
    }.items():
        images(
            name = "images_" + fixture,
            tags = ["manual"],
            targets = targets,
        )
    offload_bundle(
        name = "bundle",
        images = [":images_xnacks", ":images_gfx942"],
        tags = ["manual"],
    )
    offload_bundle(
        name = "bundle_plain",
        out = "sub/own.name",
        alignment = 1,
        host = "",
        images = [":images_gfx942"],
        tags = ["manual"],
        type = "bc",
    )
    actions_test(
        name = "bundle_action_test",
        argv = [
            "bundle --type o --align 4096 --output=BIN/tests/analysis/bundle.hipfb " +
            "--entry=host-x86_64-unknown-linux-gnu-= " +
            "--entry=hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+=BIN/tests/analysis/images_xnacks/0 " +
            "--entry=hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-=BIN/tests/analysis/images_xnacks/1 " +
            "--entry=hipv4-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/images_gfx942/0",
        ],
        count = 1,
        inputs = ["tests/analysis/images_gfx942/0", "tests/analysis/images_xnacks/0", "tests/analysis/images_xnacks/1"],
        mnemonic = "OffloadBundle",
        output = "bundle.hipfb",
        target = "bundle",
    )
    actions_test(
        name = "bundle_plain_action_test",
        argv = ["bundle --type bc --align 1 --output=BIN/tests/analysis/sub/own.name --entry=hipv4-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/images_gfx942/0"],
        count = 1,
        mnemonic = "OffloadBundle",
        output = "sub/own.name",
        target = "bundle_plain",
    )
    provides_test(
        name = "bundle_provides_test",
        entry_ids = [
            "host-x86_64-unknown-linux-gnu-",
            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
            "hipv4-amdgcn-amd-amdhsa--gfx942",
        ],
        files = ["bundle.hipfb"],
        target = "bundle",
    )
    failure_test(
        name = "bundle_conflict_test",
        images = [":images_gfx90a_and_gfx942", ":images_gfx90a_xnack"],
        message = """{}: offload_bundle: images of gfx90a and gfx90a:xnack+ cannot be in one bundle: when one names xnack, all entries of the processor must (target ID rules).
From //tests/analysis:images_gfx90a_and_gfx942 (gfx90a) and //tests/analysis:images_gfx90a_xnack (gfx90a:xnack+). Give both a setting, or put them in two bundles.""",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_duplicate_test",
        images = [":images_gfx90a_and_gfx942", ":images_gfx942"],
        message = "{}: offload_bundle: two images for gfx942: from //tests/analysis:images_gfx90a_and_gfx942 and from //tests/analysis:images_gfx942. A bundle has one entry for each target; drop one, or put them in two bundles.",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_empty_test",
        images = [":images_none"],
        message = "{}: offload_bundle: images: no image in //tests/analysis:images_none",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_alignment_test",
        alignment = 0,
        images = [":images_gfx942"],
        message = "{}: offload_bundle: alignment is 0; it is a number of bytes, 1 or more",
        rule = offload_bundle,
    )

    offload_bundle(
        name = "bundle_budget",
        images = [":images_gfx942"],
        max_size = "3 MiB",
        tags = ["manual"],
    )
    actions_test(
        name = "bundle_check_test",
        argv = [
            "check --input=BIN/tests/analysis/bundle_budget.hipfb --output=BIN/tests/analysis/bundle_budget.hipfb.entries.json --max-size=3145728 " +
            "--entry=host-x86_64-unknown-linux-gnu-= --entry=hipv4-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/images_gfx942/0",
        ],
        count = 1,
        inputs = ["tests/analysis/bundle_budget.hipfb", "tests/analysis/images_gfx942/0"],
        mnemonic = "OffloadCheck",
        output = "bundle_budget.hipfb.entries.json",
        target = "bundle_budget",
    )
    provides_test(
        name = "bundle_groups_test",
        groups = {
            "_validation": ["bundle_budget.hipfb.entries.json"],
            "gfx942": ["images_gfx942/0"],
        },
        target = "bundle_budget",
    )
    failure_test(
        name = "bundle_size_test",
        images = [":images_gfx942"],
        max_size = "1.5GiB",
        message = "{}: offload_bundle: max_size: \"1.5GiB\" is not a size: write a whole number and a unit, one of B, GB, GiB, KB, KiB, MB, MiB, TB, TiB, e.g. 1GiB",
        rule = offload_bundle,
    )

    offload_bundle(
        name = "bundle_zstd",
        bundle_version = 2,
        compress = "zstd",
        compression_level = 19,
        images = [":images_gfx942"],
        tags = ["manual"],
    )
    actions_test(
        name = "bundle_compressed_test",
        argv = ["bundle --type o --align 4096 --compress --format-version=2 --level=19 --output=BIN/tests/analysis/bundle_zstd.hipfb"],
        count = 1,
        mnemonic = "OffloadBundle",
        output = "bundle_zstd.hipfb",
        target = "bundle_zstd",
    )
    failure_test(
        name = "bundle_version_test",
        bundle_version = 1,
        images = [":images_gfx942"],
        message = "{}: offload_bundle: bundle_version is 1: it is 3, or 2 for ROCm before 7",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_level_test",
        compression_level = 23,
        images = [":images_gfx942"],
        message = "{}: offload_bundle: compression_level is 23: it is from 1 to 22, or 0 for the default",
        rule = offload_bundle,
    )
    offload_archive(
        name = "archive",
        bundles = [":bundle", "a.h"],
        tags = ["manual"],
    )
    actions_test(
        name = "archive_action_test",
        argv = ["archive --check --output=BIN/tests/analysis/libarchive.a BIN/tests/analysis/bundle.hipfb tests/analysis/a.h"],
        count = 1,
        mnemonic = "OffloadArchive",
        output = "libarchive.a",
        target = "archive",
    )
    failure_test(
        name = "archive_empty_test",
        bundles = [],
        message = "{}: offload_archive: bundles is empty: give it offload_bundle targets, or files",
        rule = offload_archive,
    )
    offload_unbundle_archive(
        name = "unbundle_archive",
        allow_missing = True,
        archive = ":archive",
        tags = ["manual"],
        targets = ["gfx942", "openmp-amdgcn-amd-amdhsa--gfx942"],
    )
    actions_test(
        name = "unbundle_archive_action_test",
        argv = [
            "unbundle-archive --input=BIN/tests/analysis/libarchive.a --allow-missing " +
            "--entry=hipv4-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/unbundle_archive/gfx942.a " +
            "--entry=openmp-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/unbundle_archive/openmp-amdgcn-amd-amdhsa--gfx942.a",
        ],
        count = 1,
        mnemonic = "OffloadUnbundleArchive",
        output = "unbundle_archive/gfx942.a",
        target = "unbundle_archive",
    )
    failure_test(
        name = "unbundle_archive_empty_test",
        archive = "a.h",
        message = "{}: offload_unbundle_archive: targets is empty: name the targets to take out, e.g. [\"gfx942\"]",
        rule = offload_unbundle_archive,
        targets = [],
    )

    offload_unbundle(
        name = "unbundle",
        bundle = ":bundle",
        tags = ["manual"],
        targets = ["gfx90a:xnack+", "gfx942"],
    )
    actions_test(
        name = "unbundle_action_test",
        argv = [
            "unbundle --type o --input=BIN/tests/analysis/bundle.hipfb " +
            "--entry=hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+=BIN/tests/analysis/unbundle/gfx90a_xnack+.co " +
            "--entry=hipv4-amdgcn-amd-amdhsa--gfx942=BIN/tests/analysis/unbundle/gfx942.co",
        ],
        count = 1,
        inputs = ["tests/analysis/bundle.hipfb"],
        mnemonic = "OffloadUnbundle",
        output = "unbundle/gfx90a_xnack+.co",
        outputs = ["unbundle/gfx90a_xnack+.co", "unbundle/gfx942.co"],
        target = "unbundle",
    )
    provides_test(
        name = "unbundle_provides_test",
        groups = {"gfx942": ["unbundle/gfx942.co"]},
        images = [
            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+ unbundle/gfx90a_xnack+.co",
            "hipv4-amdgcn-amd-amdhsa--gfx942 unbundle/gfx942.co",
        ],
        target = "unbundle",
    )
    failure_test(
        name = "unbundle_missing_test",
        bundle = ":bundle",
        message = "{}: offload_unbundle: targets: //tests/analysis:bundle has no image for gfx1100. It has host-x86_64-unknown-linux-gnu-, gfx90a:xnack+, gfx90a:xnack-, gfx942",
        rule = offload_unbundle,
        targets = ["gfx1100"],
    )
    failure_test(
        name = "unbundle_no_targets_test",
        bundle = ":bundle",
        message = "{}: offload_unbundle: targets is empty: name the targets to take out, e.g. [\"gfx942\"]",
        rule = offload_unbundle,
        targets = [],
    )

    messages = {
        "compressed": "OffloadBundleInfo: tests/analysis/provider_compressed_test_target: compressed must be True or False, got \"zstd\"",
        "entries": "OffloadBundleInfo: tests/analysis/provider_entries_test_target: a bundle needs at least one entry",
        "file": "{}: offload_image: file must be a File, got string",
        "images": "OffloadImagesInfo: images must be a depset of offload_image(), got list",
        "kind": "{}: offload_image: kind \"rocm\" is none of host, openmp, hip, hipv4, cuda, sycl",
        "target_id": "{}: offload_image: target ID \"gfx942:\": \"\" is not a feature followed by + or -",
        "triple": "{}: offload_image: triple \"amdgcn-amd-amdhsa\" does not have four fields, as amdgcn-amd-amdhsa- has",
    }
    for case, message in messages.items():
        failure_test(
            name = "provider_{}_test".format(case),
            case = case,
            message = message,
            rule = bad_provider,
        )

    native.test_suite(
        name = name,
        tests = [
            "archive_action_test",
            "archive_empty_test",
            "bundle_action_test",
            "bundle_alignment_test",
            "bundle_check_test",
            "bundle_compressed_test",
            "bundle_conflict_test",
            "bundle_duplicate_test",
            "bundle_empty_test",
            "bundle_groups_test",
            "bundle_level_test",
            "bundle_plain_action_test",
            "bundle_provides_test",
            "bundle_size_test",
            "bundle_version_test",
            "unbundle_action_test",
            "unbundle_archive_action_test",
            "unbundle_archive_empty_test",
            "unbundle_missing_test",
            "unbundle_no_targets_test",
            "unbundle_provides_test",
        ] + ["provider_{}_test".format(case) for case in messages],
    )
