"""Analysis tests of offload_bundle and offload_unbundle."""

load("//rules:defs.bzl", "offload_archive", "offload_bundle", "offload_unbundle")
load("//rules/private:target_ids.bzl", "target_ids")  # buildifier: disable=bzl-visibility
load(":fixtures.bzl", "bad_provider", "images")
load(":testing.bzl", "actions_test", "failure_test", "provides_test")

def bundle_tests(name):
    """Actions, providers and failures of offload_bundle and offload_unbundle.

    Args:
      name: name of the test suite.
    """
    for fixture, targets in {
        "gfx1250": ["gfx1250"],
        "gfx1250_xnack": ["gfx1250:xnack+"],
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
        message = """{}: offload_bundle: images of gfx90a and gfx90a:xnack+ cannot be in one bundle: if one specifies xnack, all entries of the processor must specify it (target ID rules).
From //tests/analysis:images_gfx90a_and_gfx942 (gfx90a) and //tests/analysis:images_gfx90a_xnack (gfx90a:xnack+). Specify it for both, or use two bundles.""",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_fixed_feature_test",
        images = [":images_gfx1250", ":images_gfx1250_xnack"],
        message = """{}: offload_bundle: images of gfx1250 and gfx1250:xnack+ cannot be in one bundle: if one specifies xnack, all entries of the processor must specify it (target ID rules).
From //tests/analysis:images_gfx1250 (gfx1250) and //tests/analysis:images_gfx1250_xnack (gfx1250:xnack+). Write gfx1250 for both, because it always has xnack, or use two bundles.""",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_duplicate_test",
        images = [":images_gfx90a_and_gfx942", ":images_gfx942"],
        message = "{}: offload_bundle: two images for gfx942: from //tests/analysis:images_gfx90a_and_gfx942 and from //tests/analysis:images_gfx942. A bundle has one entry for each target; remove one, or use two bundles.",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_empty_test",
        images = [":images_none"],
        message = "{}: offload_bundle: images: no image in //tests/analysis:images_none",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_no_images_test",
        images = [],
        message = "{}: offload_bundle: images is empty: add targets with device images, such as hip_code_objects",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_alignment_test",
        alignment = 0,
        images = [":images_gfx942"],
        message = "{}: offload_bundle: alignment is 0, expected a number of bytes, 1 or more",
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
            "check --max-size=3145728 --device-code --input=BIN/tests/analysis/bundle_budget.hipfb --output=BIN/tests/analysis/bundle_budget.hipfb.entries.json " +
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
        message = "{}: offload_bundle: max_size: \"1.5GiB\" is not a size, expected an integer and a unit, one of B, GB, GiB, KB, KiB, MB, MiB, TB, TiB, e.g. 1GiB",
        rule = offload_bundle,
    )

    offload_bundle(
        name = "bundle_zstd",
        bundle_version = 2,
        compress = "zstd",
        compression_level = "19",
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

    # In parts: one for each family of processors.
    images(
        name = "images_families",
        tags = ["manual"],
        targets = ["gfx906", "gfx90a", "gfx1030", "gfx1100", "gfx12-generic", "gfx9-4-generic"],
    )
    offload_bundle(
        name = "bundle_parts",
        bundle_version = 2,
        compress = "zstd",
        compression_level = "small",
        images = [":images_families"],
        tags = ["manual"],
    )
    image = "BIN/tests/analysis/images_families/"
    for number, flags, inputs in [
        (0, " --pad", ["0", "1"]),
        (1, " --pad", ["2"]),
        (2, " --pad", ["3", "4"]),
        (3, "", ["5"]),
    ]:
        part = "bundle_parts.hipfb.{}.part".format(number)
        actions_test(
            name = "bundle_part_{}_test".format(number),
            argv = [
                "compress-part --align 4096 --level=small{} --output=BIN/tests/analysis/{} ".format(flags, part) +
                " ".join([image + input for input in inputs]),
            ],
            count = 4,
            inputs = ["tests/analysis/images_families/" + input for input in inputs],
            mnemonic = "OffloadCompressPart",
            output = part,
            outputs = [part],
            target = "bundle_parts",
        )
    actions_test(
        name = "bundle_plan_test",
        argv = [
            "compress-plan --align 4096 --level=small --output=BIN/tests/analysis/bundle_parts.hipfb.plan --entry=host-x86_64-unknown-linux-gnu-= " +
            "--entry=hipv4-amdgcn-amd-amdhsa--gfx906={}0 --entry=hipv4-amdgcn-amd-amdhsa--gfx90a={}1".format(image, image),
        ],
        count = 1,
        inputs = ["tests/analysis/images_families/{}".format(number) for number in range(6)],
        mnemonic = "OffloadCompressPlan",
        output = "bundle_parts.hipfb.plan",
        target = "bundle_parts",
    )
    actions_test(
        name = "bundle_assemble_test",
        argv = [
            "assemble --plan=BIN/tests/analysis/bundle_parts.hipfb.plan --format-version=2 --output=BIN/tests/analysis/bundle_parts.hipfb " +
            " ".join(["BIN/tests/analysis/bundle_parts.hipfb.{}.part".format(number) for number in range(4)]),
        ],
        count = 1,
        mnemonic = "OffloadBundle",
        output = "bundle_parts.hipfb",
        target = "bundle_parts",
    )

    # In one action: when asked for, when there is one family, or an object of the host,
    # which is not compressed.
    images(
        name = "images_of_host",
        kind = "host",
        tags = ["manual"],
        targets = ["x86_64-unknown-linux-gnu"],
    )
    wholes = {
        "family": {"compress": "zstd", "images": [":images_xnacks", ":images_gfx942"], "incremental": "on"},
        "host": {"compress": "zstd", "host": "", "images": [":images_of_host", ":images_families"], "incremental": "on"},
        "off": {"compress": "zstd", "images": [":images_families"], "incremental": "off"},
        "plain": {"compress": "none", "images": [":images_families"], "incremental": "on"},
    }
    for case, kwargs in wholes.items():
        offload_bundle(
            name = "bundle_whole_" + case,
            tags = ["manual"],
            **kwargs
        )
        actions_test(
            name = "bundle_whole_{}_test".format(case),
            argv = ["bundle --type o"],
            count = 1,
            mnemonic = "OffloadBundle",
            output = "bundle_whole_{}.hipfb".format(case),
            target = "bundle_whole_" + case,
        )
        actions_test(
            name = "bundle_whole_{}_parts_test".format(case),
            count = 0,
            mnemonic = "OffloadCompressPart",
            target = "bundle_whole_" + case,
        )
    failure_test(
        name = "bundle_host_test",
        host = "x86_64-linux-gnu",
        images = [":images_gfx942"],
        message = "{}: offload_bundle: host is \"x86_64-linux-gnu\", expected a triple of four fields, such as x86_64-unknown-linux-gnu",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_version_test",
        bundle_version = 1,
        images = [":images_gfx942"],
        message = "{}: offload_bundle: bundle_version is 1, expected 3, or 2 for ROCm before 7",
        rule = offload_bundle,
    )
    failure_test(
        name = "bundle_level_test",
        compression_level = "23",
        images = [":images_gfx942"],
        message = "{}: offload_bundle: compression_level is \"23\", expected \"fast\", \"small\", or a level of LLVM's tools from \"1\" to \"22\"",
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
        message = "{}: offload_archive: bundles is empty: add offload_bundle targets or files",
        rule = offload_archive,
    )
    failure_test(
        name = "archive_images_test",
        bundles = [":images_gfx942"],
        message = "{}: offload_archive: bundles: //tests/analysis:images_gfx942 has no bundle: combine its images with offload_bundle(images = [\"//tests/analysis:images_gfx942\"])",
        rule = offload_archive,
    )
    failure_test(
        name = "unbundle_images_test",
        bundle = ":images_gfx942",
        message = "{}: offload_unbundle: bundle: //tests/analysis:images_gfx942 has no bundle: combine its images with offload_bundle(images = [\"//tests/analysis:images_gfx942\"])",
        rule = offload_unbundle,
        targets = ["gfx942"],
    )
    offload_unbundle(
        name = "unbundle_archive",
        allow_missing = True,
        bundle = ":archive",
        tags = ["manual"],
        targets = ["gfx942", "openmp-amdgcn-amd-amdhsa--gfx942"],
        type = "a",
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

    # An entry that may be missing, or that code of another kind serves, is looked for when the program runs.
    offload_unbundle(
        name = "unbundle_missing_allowed",
        bundle = ":bundle",
        allow_missing = True,
        hip_openmp_compatible = True,
        targets = ["gfx1100"],
        tags = ["manual"],
    )
    actions_test(
        name = "unbundle_missing_allowed_test",
        argv = ["unbundle --type o --input=BIN/tests/analysis/bundle.hipfb --allow-missing --hip-openmp-compatible --entry=hipv4-amdgcn-amd-amdhsa--gfx1100=BIN/tests/analysis/unbundle_missing_allowed/gfx1100.co"],
        count = 1,
        mnemonic = "OffloadUnbundle",
        output = "unbundle_missing_allowed/gfx1100.co",
        target = "unbundle_missing_allowed",
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
        targets = ["gfx1100"],
        rule = offload_unbundle,
    )
    failure_test(
        name = "unbundle_no_targets_test",
        bundle = ":bundle",
        message = "{}: offload_unbundle: no architectures: set targets, e.g. [\"gfx90a\", \"gfx942\"], or build with",
        rule = offload_unbundle,
    )

    messages = {
        "compressed": "OffloadBundleInfo: tests/analysis/provider_compressed_test_target: compressed must be True or False, found \"zstd\"",
        "entries": "OffloadBundleInfo: tests/analysis/provider_entries_test_target: a bundle requires at least one entry",
        "file": "{}: offload_image: file must be a File, found string",
        "images": "OffloadImagesInfo: images must be a depset of offload_image(), found list",
        "kind": "{}: offload_image: kind \"rocm\", expected one of " + ", ".join(target_ids.kinds),
        "target_id": "{}: offload_image: target ID \"gfx942:\": \"\" is not a feature followed by + or -",
        "triple": "{}: offload_image: triple \"amdgcn-amd-amdhsa\", expected four fields, such as amdgcn-amd-amdhsa-",
    }
    for case, message in messages.items():
        failure_test(
            name = "provider_{}_test".format(case),
            case = case,
            message = message,
            rule = bad_provider,
        )
