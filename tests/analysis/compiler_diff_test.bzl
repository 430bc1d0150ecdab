"""Analysis tests of offload_compiler_diff: the builds, the comparison, the test, and failures."""

load("//rules:defs.bzl", "hip_code_objects", "offload_compiler_diff")
load(":testing.bzl", "actions_test", "actions_test_with", "failure_test", "provides_test")

_flagged_actions_test = actions_test_with({
    str(Label("//rules/settings:device_copts")): ["-O1", "-mllvm", "-inline-threshold=7"],
    str(Label("//rules/settings:optimization_records")): True,
})

def _diff(name, **kwargs):
    # Only the report: the test of the macro depends on it.
    offload_compiler_diff(
        name = name,
        **kwargs
    )

def compiler_diff_tests(name):
    """Actions, output groups and failures of offload_compiler_diff, and the settings that it uses.

    Args:
      name: name of the test suite.
    """
    for rdc in [False, True]:
        hip_code_objects(
            name = "diff_rdc" if rdc else "diff_kernels",
            srcs = ["a.hip"],
            copts = ["-O3"],
            offload_archs = ["gfx90a:xnack+"],
            rdc = rdc,
            tags = ["manual"],
        )

    # Flags of the setting follow those of the target, also in links that generate code.
    _flagged_actions_test(
        name = "device_copts_test",
        size = "small",
        argv = [
            "-O3 -O1 -mllvm -inline-threshold=7",
            "-fsave-optimization-record=yaml -foptimization-record-passes=prologepilog|regalloc|loop-unroll|inline -Rpass-analysis=kernel-resource-usage -foptimization-record-file=BIN/tests/analysis/diff_kernels/gfx90a_xnack+/a.o.gfx90a:xnack+.opt.yaml",
        ],
        count = 1,
        mnemonic = "OffloadHipCompile",
        output = "diff_kernels/gfx90a_xnack+/a.o",
        target_under_test = ":diff_kernels",
    )
    _flagged_actions_test(
        name = "device_copts_link_test",
        size = "small",
        argv = [
            "-O3 -O1 -Xlinker -plugin-opt=-inline-threshold=7",
            "-Wl,-plugin-opt=opt-remarks-filename=BIN/tests/analysis/diff_rdc/gfx90a_xnack+.co.gfx90a:xnack+.opt.yaml",
        ],
        mnemonic = "OffloadDeviceLink",
        output = "diff_rdc/gfx90a_xnack+.co",
        outputs = ["diff_rdc/gfx90a_xnack+.co", "diff_rdc/gfx90a_xnack+.co.gfx90a:xnack+.opt.yaml"],
        target_under_test = ":diff_rdc",
    )

    _diff(
        name = "diff",
        accepted = "index.dat",
        fail_on = ["scratch", "vgpr-spills"],
        max_growth = "5%",
        new_copts = ["-O1"],
        new_lto = "none",
        suggest = ["O2", "no-lto"],
        tags = ["manual"],
        srcs = [":diff_kernels"],
        tolerances = {"vgprs": "8"},
    )
    actions_test(
        name = "diff_action_test",
        argv = [
            "diff --html=BIN/tests/analysis/diff.html --markdown=BIN/tests/analysis/diff.md --output=BIN/tests/analysis/diff.json --message=BIN/tests/analysis/diff.message",
            "--fail-on=scratch,vgpr-spills --tolerance=vgprs=8 --max-growth=5% --accepted=tests/analysis/index.dat",
        ],
        count = 2,
        inputs = [
            "tests/analysis/diff_kernels/gfx90a_xnack+.co",
            "tests/analysis/diff_kernels/gfx90a_xnack+/a.o.gfx90a:xnack+.opt.yaml",
            "tests/analysis/index.dat",
        ],
        mnemonic = "OffloadCompilerDiff",
        output = "diff.html",
        outputs = ["diff.html", "diff.md", "diff.json", "diff.message"],
        target = "diff",
    )
    provides_test(
        name = "diff_groups_test",
        files = ["diff.html", "diff.md", "diff.json"],
        groups = {
            "html": ["diff.html"],
            "json": ["diff.json"],
            "markdown": ["diff.md"],
            "message": ["diff.message"],
            "suggest": ["diff.suggest.html", "diff.suggest.md", "diff.suggest.json", "diff.suggest.message"],
        },
        target = "diff",
    )
    native.test_suite(
        name = "diff_suite",
        tags = ["manual"],
        tests = ["diff_test"],
    )
    for case, kwargs, message in [
        ("same", {}, "the builds are equal: set old_compiler and new_compiler, or the attributes for lto or copts"),
        ("rule", {"fail_on": ["luck"], "new_copts": ["-O1"]}, "fail_on: \"luck\" is not a limit, expected a list of agprs, "),
        ("tolerance", {"new_copts": ["-O1"], "tolerances": {"removed-archs": "1"}}, "tolerances: found \"removed-archs\", expected one of agprs, "),
        ("accepted", {"accepted": "index.dat", "new_copts": ["-O1"]}, "accepted requires limits: set fail_on, tolerances or max_growth"),
        ("suggest", {"fail_on": ["lds"], "new_copts": ["-O1"], "suggest": ["O9"]}, "suggest: found \"O9\", expected a list of O2, "),
        ("empty", {"new_copts": ["-O1"], "srcs": []}, "srcs is empty: name programs, libraries or code objects to compare"),
        ("files", {"new_copts": ["-O1"], "srcs": [":diff_suite"], "testonly": True}, "srcs: //tests/analysis:diff_suite have no files to compare; name the programs and libraries"),
    ]:
        failure_test(
            name = "diff_{}_failure_test".format(case),
            message = "{}: offload_compiler_diff: " + message,
            rule = _diff,
            **({"srcs": [":diff_kernels"]} | kwargs)
        )
