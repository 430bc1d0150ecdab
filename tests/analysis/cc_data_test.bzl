"""Analysis tests of offload_cc_data."""

load("//rules:defs.bzl", "offload_bundle", "offload_cc_data")
load(":fixtures.bzl", "images")
load(":testing.bzl", "actions_test", "actions_test_with", "failure_test", "provides_test")

_aarch64_test = actions_test_with({
    "//command_line_option:extra_toolchains": [str(Label("//tests/analysis:aarch64_cc"))],
    "//command_line_option:platforms": str(Label("//tests/analysis:aarch64")),
})

def cc_data_tests(name):
    """Actions, providers and failures of offload_cc_data.

    Args:
      name: name of the test suite.
    """
    images(
        name = "data_two_images",
        tags = ["manual"],
        targets = ["gfx90a", "gfx942"],
    )
    offload_bundle(
        name = "data_bundle",
        compress = "none",
        images = [":data_two_images"],
        tags = ["manual"],
    )
    offload_cc_data(
        name = "kernels_data",
        src = ":data_bundle",
        tags = ["manual"],
    )
    offload_cc_data(
        name = "data-file",
        src = "a.h",
        alignment = 64,
        header = "include/kernels.h",
        symbol = "my_kernels",
        tags = ["manual"],
    )
    actions_test(
        name = "data_object_test",
        argv = ["cc-data --symbol=kernels_data --triple=x86_64-unknown-linux-gnu --align=4096 --output=BIN/tests/analysis/kernels_data.data.o BIN/tests/analysis/data_bundle.hipfb"],
        count = 1,
        inputs = ["tests/analysis/data_bundle.hipfb"],
        mnemonic = "OffloadCcData",
        output = "kernels_data.data.o",
        target = "kernels_data",
    )
    actions_test(
        name = "data_header_test",
        argv = ["cc-data --symbol=kernels_data --header=BIN/tests/analysis/kernels_data.h"],
        count = 1,
        mnemonic = "OffloadCcHeader",
        output = "kernels_data.h",
        target = "kernels_data",
    )
    provides_test(
        name = "data_provides_test",
        files = ["kernels_data.data.o", "kernels_data.h"],
        headers = ["kernels_data.h"],
        target = "kernels_data",
    )
    actions_test(
        name = "data_named_test",
        argv = ["--symbol=my_kernels --triple=x86_64-unknown-linux-gnu --align=64", "tests/analysis/a.h"],
        mnemonic = "OffloadCcData",
        output = "data-file.data.o",
        target = "data-file",
    )
    provides_test(
        name = "data_named_provides_test",
        headers = ["include/kernels.h"],
        target = "data-file",
    )
    _aarch64_test(
        name = "data_aarch64_test",
        size = "small",
        argv = ["--triple=aarch64-unknown-linux-gnu"],
        mnemonic = "OffloadCcData",
        output = "kernels_data.data.o",
        target_under_test = "kernels_data",
    )
    tests = [
        "data_aarch64_test",
        "data_header_test",
        "data_named_provides_test",
        "data_named_test",
        "data_object_test",
        "data_provides_test",
    ]
    for test, message, attributes in [
        ("data_symbol_test", "{}: offload_cc_data: symbol \"a-b\" is not a C identifier: found \"-\", expected letters, digits and _, no digit first; set symbol", {"src": "a.h", "symbol": "a-b"}),
        ("data_digit_inside_test", "symbol \"a1-b\" is not a C identifier: found \"-\"", {"src": "a.h", "symbol": "a1-b"}),
        ("data_digit_test", "symbol \"1a\" is not a C identifier: found \"1\"", {"src": "a.h", "symbol": "1a"}),
        ("data_alignment_test", "{}: offload_cc_data: alignment is 0, expected a power of two", {"alignment": 0, "src": "a.h"}),
        ("data_power_test", "{}: offload_cc_data: alignment is 6, expected a power of two, such as 4096", {"alignment": 6, "src": "a.h"}),
        ("data_images_test", "{}: offload_cc_data: src: //tests/analysis:data_two_images has 2 images (gfx90a, gfx942), expected one file: combine them with offload_bundle(images = [\"//tests/analysis:data_two_images\"])", {"src": ":data_two_images"}),
    ]:
        failure_test(
            name = test,
            message = message,
            rule = offload_cc_data,
            **attributes
        )
        tests.append(test)
    native.test_suite(
        name = name,
        tests = tests,
    )
