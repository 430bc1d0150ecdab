"""Analysis tests of how rules take flags."""

load("//rules:defs.bzl", "cuda_ptx", "hip_code_objects", "hip_library", "offload_link", "openmp_library")
load(":testing.bzl", "actions_test", "failure_test", "one_argument")

def _variables_impl(_ctx):
    return [platform_common.TemplateVariableInfo({
        "LEVEL": "3",
        "LOOP": "$(LOOP)",
        "NESTED": "-O$(LEVEL) -g",
    })]

# Make variables.
make_variables = rule(implementation = _variables_impl)

# In every attribute with flags: several in one string, quoted, with Make variables, a dollar and a generated file.
_FLAGS = ["-DA='b c' -DD=\\\"e\\\"", "$(NESTED)", "-DM=$(LEVEL)$$X", "-include $(execpath :flag_file)"]
_WORDS = one_argument("-DA=b c") + " -DD=\"e\" -O3 -g -DM=3$X -include BIN/tests/analysis/flag_file.h"
_DEFINES = one_argument("-DE=f g") + " -DL=3"
_WITHOUT_INCLUSIONS = _WORDS.partition(" -include")[0]
_COMMON = {
    "additional_compiler_inputs": [":flag_file"],
    "additional_linker_inputs": [":flag_file"],
    "defines": ["E='f g'", "L=$(LEVEL)"],
    "tags": ["manual"],
    "toolchains": [":make_variables"],
}

def flags_tests(name):
    """What rules make of copts, device_copts, host_copts, defines and device_linkopts.

    Args:
      name: name of the test suite.
    """
    make_variables(
        name = "make_variables",
        tags = ["manual"],
    )
    native.genrule(
        name = "flag_file",
        outs = ["flag_file.h"],
        cmd = "touch $@",
        tags = ["manual"],
    )
    hip_library(
        name = "flags_hip",
        srcs = ["a.hip"],
        copts = _FLAGS,
        device_copts = ["-device $(LEVEL)"],
        device_linkopts = _FLAGS,
        host_copts = ["-host $(LEVEL)"],
        offload_archs = ["gfx942"],
        rdc = True,
        **_COMMON
    )
    hip_code_objects(
        name = "flags_code_objects",
        srcs = ["a.hip"],
        copts = _FLAGS,
        device_linkopts = _FLAGS,
        offload_archs = ["gfx942"],
        **_COMMON
    )
    hip_code_objects(
        name = "flags_not_split",
        srcs = ["a.hip"],
        copts = _FLAGS,
        features = ["no_copts_tokenization"],
        offload_archs = ["gfx942"],
        **_COMMON
    )
    cuda_ptx(
        name = "flags_cuda",
        srcs = ["a.cu", "sub/a.cc"],
        copts = _FLAGS,
        device_linkopts = _FLAGS,
        offload_archs = ["sm_70"],
        **_COMMON
    )
    openmp_library(
        name = "flags_openmp",
        srcs = ["a.c"],
        copts = _FLAGS,
        device_copts = ["-device $(LEVEL)"],
        arch_linkopts = {"x86_64-pc-linux-gnu": ["-T$(execpath :flag_file) -other"]},
        host_copts = ["-host $(LEVEL)"],
        offload_archs = ["x86_64-pc-linux-gnu"],
        **_COMMON
    )
    offload_link(
        name = "flags_link",
        srcs = ["host.o"],
        additional_linker_inputs = [":flag_file"],
        device_linkopts = ["-T$(execpath :flag_file) -other"],
        tags = ["manual"],
    )
    cases = [
        ("hip_device", "flags_hip", "OffloadHipCompile", "flags_hip/gfx942/a.bc", [_WORDS + " -device 3", _DEFINES]),
        ("hip_host", "flags_hip", "OffloadHipHostCompile", "flags_hip/host/a.o", [_WORDS + " -host 3", _DEFINES]),
        ("hip_link", "flags_hip", "OffloadDeviceLink", "flags_hip/gfx942.co", [_WORDS]),
        ("code_objects", "flags_code_objects", "OffloadHipCompile", "flags_code_objects/gfx942/a.o", [_WORDS, _DEFINES]),
        ("code_objects_link", "flags_code_objects", "OffloadDeviceLink", "flags_code_objects/gfx942.co", [_WORDS]),
        ("not_split", "flags_not_split", "OffloadHipCompile", "flags_not_split/gfx942/a.o", [" ".join([one_argument("-DA='b c' -DD=\\\"e\\\""), "-O3 -g -DM=3$X", one_argument("-include BIN/tests/analysis/flag_file.h")])]),
        ("cuda", "flags_cuda", "OffloadCudaCompile", "flags_cuda/sm_70/a.bc", [_WORDS, _DEFINES]),
        ("cuda_link", "flags_cuda", "OffloadDeviceLink", "flags_cuda/sm_70.ptx", [_WORDS]),
        ("openmp_includes", "flags_openmp", "OffloadOpenMpIncludes", "flags_openmp/a.full.c", [_WORDS + " -host 3", _DEFINES]),
        ("openmp_device", "flags_openmp", "OffloadOpenMpCompile", "flags_openmp/x86_64-pc-linux-gnu/a.o", [_WITHOUT_INCLUSIONS + " -device 3"]),
        ("openmp_host", "flags_openmp", "OffloadOpenMpHostCompile", "flags_openmp/host/a.bc", [_WITHOUT_INCLUSIONS + " -host 3"]),
        ("openmp_link", "flags_openmp", "OffloadDeviceLink", "flags_openmp/x86_64-pc-linux-gnu.img", ["-TBIN/tests/analysis/flag_file.h -other"]),
        ("link", "flags_link", "OffloadLink", "flags_link.register.o", ["--device-arg=-TBIN/tests/analysis/flag_file.h --device-arg=-other"]),
    ]
    for case, target, mnemonic, output, argv in cases:
        actions_test(
            name = "flags_{}_test".format(case),
            argv = argv,
            inputs = ["tests/analysis/flag_file.h"],
            mnemonic = mnemonic,
            output = output,
            target = target,
        )
    failures = [
        ("undefined", {"copts": ["-D$(NONE)"]}, "{}: copts: \"-D$(NONE)\": $(NONE) is not defined: name a target that defines it in toolchains, or write $$ for a dollar"),
        ("loop", {"copts": ["$(LOOP)"], "toolchains": [":make_variables"]}, "{}: copts: \"$(LOOP)\": the value of $(LOOP) refers to itself"),
        ("quotation", {"copts": ["-DA='b"]}, "{}: copts: \"-DA='b\" ends inside a quotation: close it with '"),
        ("backslash", {"device_linkopts": ["-DA\\"]}, "{}: device_linkopts: \"-DA\\\\\" ends with a backslash: write two for a literal one"),
        ("define", {"defines": ["A B"]}, "{}: defines: \"A B\" has 2 words, expected one definition, NAME or NAME=VALUE"),
        ("not_an_input", {"copts": ["$(location :flag_file)"]}, "is not a declared prerequisite of this rule"),
    ]
    for case, kwargs, message in failures:
        failure_test(
            name = "flags_{}_test".format(case),
            srcs = ["a.hip"],
            message = message,
            offload_archs = ["gfx942"],
            rule = hip_code_objects,
            **kwargs
        )
