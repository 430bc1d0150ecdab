"""Analysis tests of the rules that give CcInfo."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")
load("//rules:defs.bzl", "hip_library", "offload_binary", "offload_bundle", "offload_embed", "offload_link", "offload_package_test", "offload_register", "offload_report", "openmp_library")
load(":fixtures.bzl", "container", "layer")
load(":testing.bzl", "actions_test", "actions_test_with", "code_test", "failure_test", "one_argument", "provides_test")

_windows_test = actions_test_with({
    "//command_line_option:extra_toolchains": [str(Label("//tests/analysis:windows_cc"))],
    "//command_line_option:platforms": str(Label("//tests/analysis:windows")),
})

def library_tests(name):
    """Actions, providers and failures of the rules that give CcInfo.

    Args:
      name: name of the test suite.
    """
    hip_library(
        name = "lib",
        srcs = ["a.hip", "a.cu"],
        hdrs = ["a.h"],
        copts = ["-both"],
        device_copts = ["-device"],
        host_copts = ["-host"],
        offload_archs = ["gfx90a", "gfx942"],
        rdc = True,
        tags = ["manual"],
        deps = [":hip_lib"],
    )
    actions_test(
        name = "lib_device_test",
        argv = ["-fgpu-rdc -emit-llvm -c", "-both -device -o BIN/tests/analysis/lib/gfx942/a.bc tests/analysis/a.hip"],
        count = 4,
        mnemonic = "OffloadHipCompile",
        output = "lib/gfx942/a.bc",
        target = "lib",
    )
    actions_test(
        name = "lib_host_test",
        argv = [
            "--offload-host-only --offload-new-driver -fgpu-rdc -fPIC -c",
            "-DLIB=1",
            "-both -host -o BIN/tests/analysis/lib/host/a.o tests/analysis/a.hip",
        ],
        count = 2,
        inputs = ["tests/analysis/a.h", "tests/analysis/lib/lib.h"],
        mnemonic = "OffloadHipHostCompile",
        output = "lib/host/a.o",
        target = "lib",
    )
    actions_test(
        name = "lib_isolate_test",
        argv = [
            "--isolate=BIN/tests/analysis/lib/host/a.o",
            one_argument("--reference=registration of //tests/analysis:lib") + " --",
        ],
        count = 2,
        mnemonic = "OffloadHipHostCompile",
        output = "lib/host/a.o",
        target = "lib",
    )
    actions_test(
        name = "lib_register_test",
        argv = [
            "register --kind=hip --triple=x86_64-unknown-linux-gnu --output=BIN/tests/analysis/lib.register.o",
            "--keep-entries=BIN/tests/analysis/lib/host/a.o --keep-entries=BIN/tests/analysis/lib/host/a_cu.o",
            one_argument("--define=registration of //tests/analysis:lib") + " BIN/tests/analysis/lib.hipfb",
        ],
        count = 1,
        inputs = ["tests/analysis/lib.hipfb", "tests/analysis/lib/host/a.o"],
        mnemonic = "OffloadRegister",
        output = "lib.register.o",
        target = "lib",
    )
    provides_test(
        name = "lib_provides_test",
        entry_ids = ["host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx90a", "hipv4-amdgcn-amd-amdhsa--gfx942"],
        files = ["liblib.a"],
        groups = {"bundle": ["lib.hipfb"], "compilation_outputs": ["lib/host/a.o", "lib/host/a_cu.o", "lib.register.o"], "gfx942": ["lib/gfx942.co"]},
        images = ["hipv4-amdgcn-amd-amdhsa--gfx90a lib/gfx90a.co", "hipv4-amdgcn-amd-amdhsa--gfx942 lib/gfx942.co"],
        target = "lib",
    )

    cc_library(
        name = "impl_lib",
        hdrs = ["sub/impl.h"],
        defines = ["IMPL=1"],
        tags = ["manual"],
    )
    for rule, mnemonic, output, srcs in [
        (hip_library, "OffloadHipHostCompile", "host/a.o", ["a.hip", "a.h"]),
        (openmp_library, "OffloadOpenMpIncludes", "a.full.c", ["a.c", "a.h"]),
    ]:
        kind = "hip" if rule == hip_library else "openmp"
        rule(
            name = "like_cc_" + kind,
            srcs = srcs,
            hdrs = ["lib/lib.h"],
            implementation_deps = [":impl_lib"],
            include_prefix = "prefix",
            linkopts = ["-Wl,-T,$(location a.c) -lm"],
            additional_linker_inputs = ["a.c"],
            local_defines = ["LOCAL='a b'"],
            offload_archs = ["gfx942"],
            strip_include_prefix = "lib",
            tags = ["manual"],
            textual_hdrs = ["sub/text.inc"],
        )
        actions_test(
            name = "like_cc_{}_compile_test".format(kind),
            argv = ["-DIMPL=1 " + one_argument("-DLOCAL=a b"), "-I BIN/tests/analysis/_virtual_includes/like_cc_" + kind],
            count = 1,
            inputs = ["tests/analysis/a.h", "tests/analysis/sub/impl.h", "tests/analysis/sub/text.inc", "tests/analysis/_virtual_includes/like_cc_{}/prefix/lib.h".format(kind)],
            mnemonic = mnemonic,
            output = "like_cc_{}/{}".format(kind, output),
            target = "like_cc_" + kind,
        )
        provides_test(
            name = "like_cc_{}_provides_test".format(kind),
            alwayslink = "False",
            defines = [],
            headers = ["a.h", "_virtual_includes/like_cc_{}/prefix/lib.h".format(kind), "lib/lib.h", "sub/text.inc"],
            link_flags = ["-Wl,-T,tests/analysis/a.c", "-lm"],
            link_inputs = ["a.c"],
            target = "like_cc_" + kind,
        )

    # A linker script in deps, as for cc_library.
    hip_library(
        name = "scripts",
        srcs = ["a.hip"],
        linkopts = ["-Wl,-T,$(location script.lds)"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
        deps = ["script.lds"],
    )
    provides_test(
        name = "linker_script_test",
        link_flags = ["-Wl,-T,tests/analysis/script.lds"],
        link_inputs = ["script.lds"],
        target = "scripts",
    )

    cc_library(
        name = "lib_with_data",
        data = ["a.c"],
        tags = ["manual"],
    )
    for name, rule in [("hip", hip_library), ("openmp", openmp_library)]:
        rule(
            name = "data_of_" + name,
            srcs = ["sub/a.cc"],
            data = ["a.h"],
            offload_archs = ["gfx90a"],
            tags = ["manual"],
            deps = [":lib_with_data"],
        )
        provides_test(
            name = "data_of_{}_test".format(name),
            runfiles = ["a.c", "a.h"],
            target = "data_of_" + name,
        )
    hip_library(
        name = "lib_of_lib",
        srcs = ["a.hip"],
        device_deps = [":lib"],
        offload_archs = ["gfx942"],
        rdc = True,
        tags = ["manual"],
    )
    actions_test(
        name = "lib_device_deps_test",
        argv = ["-flto -Wl,-plugin-opt=-amdgpu-internalize-symbols", "-Xlinker BIN/tests/analysis/lib_of_lib/gfx942/a.bc -Wl,--start-lib -Xlinker BIN/tests/analysis/lib/gfx942/a.bc -Xlinker BIN/tests/analysis/lib/gfx942/a_cu.bc -Wl,--end-lib"],
        count = 1,
        mnemonic = "OffloadDeviceLink",
        output = "lib_of_lib/gfx942.co",
        target = "lib_of_lib",
    )
    offload_register(
        name = "register_data",
        bundle = ":lib",
        tags = ["manual"],
        deps = [":data_of_hip"],
    )
    provides_test(
        name = "register_data_test",
        runfiles = ["a.c", "a.h"],
        target = "register_data",
    )
    actions_test(
        name = "register_lib_test",
        argv = ["BIN/tests/analysis/lib.hipfb"],
        mnemonic = "OffloadRegister",
        output = "register_data.register.o",
        target = "register_data",
    )

    offload_register(
        name = "register_headers",
        bundle = ":lib",
        tags = ["manual"],
        deps = [":impl_lib"],
    )
    hip_library(
        name = "register_user",
        srcs = ["a.hip"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
        deps = [":register_headers"],
    )
    actions_test(
        name = "register_headers_test",
        argv = ["-DIMPL=1"],
        mnemonic = "OffloadHipHostCompile",
        output = "register_user/host/a.o",
        target = "register_user",
    )
    offload_register(
        name = "register_hip",
        bundle = ":bundle",
        tags = ["manual"],
    )
    actions_test(
        name = "register_hip_test",
        argv = ["register --kind=hip --triple=x86_64-unknown-linux-gnu --output=BIN/tests/analysis/register_hip.register.o --check BIN/tests/analysis/bundle.hipfb"],
        count = 1,
        mnemonic = "OffloadRegister",
        output = "register_hip.register.o",
        target = "register_hip",
    )
    offload_register(
        name = "register_openmp",
        images = [":images_openmp"],
        kind = "openmp",
        tags = ["manual"],
    )
    actions_test(
        name = "register_openmp_test",
        argv = ["BIN/tests/analysis/images_openmp/0 BIN/tests/analysis/images_openmp/1 BIN/tests/analysis/images_openmp/2"],
        count = 1,
        mnemonic = "OffloadRegister",
        output = "register_openmp.register.o",
        target = "register_openmp",
    )
    offload_register(
        name = "register_sycl",
        bundle = "a.c",
        kind = "sycl",
        llvm_version = 23,
        tags = ["manual"],
    )
    actions_test(
        name = "register_sycl_test",
        argv = ["register --kind=sycl --triple=x86_64-unknown-linux-gnu --output=BIN/tests/analysis/register_sycl.register.o --llvm-version=23 tests/analysis/a.c"],
        count = 1,
        mnemonic = "OffloadRegister",
        output = "register_sycl.register.o",
        target = "register_sycl",
    )
    _windows_test(
        name = "register_windows_test",
        size = "small",
        argv = ["register --kind=hip --triple=x86_64-pc-windows-msvc --output=BIN/tests/analysis/register_hip.register.obj --check BIN/tests/analysis/bundle.hipfb"],
        count = 1,
        mnemonic = "OffloadRegister",
        output = "register_hip.register.obj",
        target_under_test = "register_hip",
    )
    offload_bundle(
        name = "bundle_openmp",
        images = [":images_openmp"],
        tags = ["manual"],
    )
    for case, kwargs, message in [
        ("bundle_kind", {"bundle": ":bundle_openmp"}, "bundle: //tests/analysis:bundle_openmp has the entry openmp-amdgcn-amd-amdhsa--gfx90a, expected kind hip"),
        ("two_files", {"bundle": ":two_files"}, "bundle: //tests/analysis:two_files has 2 files, expected one; name a file, or a target with one"),
        ("sycl_images", {"images": [":images_gfx942"], "kind": "sycl"}, "kind is sycl, which registers one offload binary: set bundle instead of images"),
        ("nothing", {}, "kind is hip, which registers one fat binary: set bundle"),
        ("hip_images", {"images": [":images_gfx942"]}, "kind is hip, which registers one fat binary: set bundle instead of images"),
        ("image_kind", {"images": [":images_gfx942"], "kind": "openmp"}, "images: //tests/analysis:images_gfx942 has an image of kind hipv4, expected openmp"),
        ("openmp_bundle", {"bundle": ":bundle", "kind": "openmp"}, "kind is openmp, which registers single images: set images instead of bundle"),
    ]:
        failure_test(
            name = "register_{}_test".format(case),
            message = "{}: offload_register: " + message,
            rule = offload_register,
            **kwargs
        )

    offload_report(
        name = "report",
        tags = ["manual"],
        srcs = [":register_hip", ":lib"],
    )
    code_test(
        name = "report_test",
        code = [
            "//tests/analysis:bundle bundle host-x86_64-unknown-linux-gnu- hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+ hipv4-amdgcn-amd-amdhsa--gfx90a:xnack- hipv4-amdgcn-amd-amdhsa--gfx942",
            "//tests/analysis:lib bundle host-x86_64-unknown-linux-gnu- hipv4-amdgcn-amd-amdhsa--gfx90a hipv4-amdgcn-amd-amdhsa--gfx942",
        ],
        target = "report",
    )

    cc_test(
        name = "tested",
        srcs = ["a.c"],
        tags = ["manual"],
        deps = [":lib"],
    )
    native.test_suite(
        name = "suite",
        tags = ["manual"],
        tests = [":tested"],
    )
    layer(
        name = "layer",
        srcs = {"/app/kernels": ":bundle"},
        tags = ["manual"],
    )
    container(
        name = "container_base",
        layers = [":layer"],
        tags = ["manual"],
    )
    container(
        name = "container",
        base = ":container_base",
        tags = ["manual"],
    )
    for case, code in [("suite", ":lib"), ("container", ":bundle")]:
        offload_report(
            name = "report_" + case,
            testonly = True,
            tags = ["manual"],
            srcs = [":" + case],
        )
        code_test(
            name = "report_{}_test".format(case),
            code = {
                ":bundle": ["//tests/analysis:bundle bundle host-x86_64-unknown-linux-gnu- hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+ hipv4-amdgcn-amd-amdhsa--gfx90a:xnack- hipv4-amdgcn-amd-amdhsa--gfx942"],
                ":lib": ["//tests/analysis:lib bundle host-x86_64-unknown-linux-gnu- hipv4-amdgcn-amd-amdhsa--gfx90a hipv4-amdgcn-amd-amdhsa--gfx942"],
            }[code],
            target = "report_" + case,
        )

    provides_test(
        name = "report_groups_test",
        files = ["report.json"],
        groups = {
            "html": ["report.html"],
            "json": ["report.kernels.json"],
            "labels": ["report.json"],
            "markdown": ["report.md"],
        },
        target = "report",
    )
    offload_report(
        name = "report_limits",
        base = ["old.hipfb"],
        covers = ["gfx942", "gfx90a:xnack+"],
        disassembler = "clang.sh",
        fail_on = ["spills", "removed-archs"],
        max_growth = "5%",
        tags = ["manual"],
        srcs = [":bundle"],
    )
    provides_test(
        name = "report_validation_test",
        # Validations of what the report is about come with it.
        groups = {"_validation": ["report_limits.growth.json", "report_limits.covers.json", "bundle.hipfb.entries.json"]},
        target = "report_limits",
    )
    actions_test(
        name = "report_html_test",
        argv = ["report --html=BIN/tests/analysis/report_limits.html --base=tests/analysis/old.hipfb --disassembler=tests/analysis/clang.sh -- BIN/tests/analysis/bundle.hipfb"],
        count = 3,
        inputs = ["tests/analysis/clang.sh", "tests/analysis/old.hipfb", "tests/analysis/bundle.hipfb"],
        mnemonic = "OffloadReport",
        output = "report_limits.html",
        target = "report_limits",
    )
    actions_test(
        name = "report_growth_test",
        argv = ["report --json=BIN/tests/analysis/report_limits.growth.json --base=tests/analysis/old.hipfb --fail-on=spills,removed-archs --max-growth=5% -- BIN/tests/analysis/bundle.hipfb"],
        count = 1,
        mnemonic = "OffloadCheckGrowth",
        output = "report_limits.growth.json",
        target = "report_limits",
    )
    actions_test(
        name = "report_covers_test",
        argv = ["check --covers=gfx942,gfx90a:xnack+ --output=BIN/tests/analysis/report_limits.covers.json -- BIN/tests/analysis/bundle.hipfb"],
        count = 1,
        mnemonic = "OffloadCheckCoverage",
        output = "report_limits.covers.json",
        target = "report_limits",
    )
    for case, kwargs, message in [
        ("rule", {"base": ["old.hipfb"], "fail_on": ["luck"]}, "fail_on: \"luck\" is not a limit, expected a list of agprs, code-size, lds, occupancy, scratch, sgpr-spills, sgprs, spills, vgpr-spills, vgprs, removed-archs, removed-kernels"),
        ("covered_name", {"covers": ["gfx94"]}, "covers: \"gfx94\" is not a processor of LLVM: did you mean gfx904?"),
        ("covered_kind", {"covers": ["sm_90"]}, "covers: \"sm_90\" is not an AMD GPU, expected one such as gfx942 or gfx90a:xnack+"),
        ("base", {"max_growth": "5%"}, "max_growth requires base: name the older file to compare with"),
    ]:
        failure_test(
            name = "report_{}_test".format(case),
            message = "{}: offload_report: " + message,
            rule = offload_report,
            srcs = [":bundle"],
            **kwargs
        )

    failure_test(
        name = "report_files_test",
        covers = ["gfx942"],
        message = "{}: offload_report: srcs: //tests/analysis:suite have no files to check; name the programs and libraries",
        rule = offload_report,
        srcs = [":suite"],
        testonly = True,
    )

    offload_package_test(
        name = "packages",
        srcs = [":bundle", "old.hipfb"],
        covers = ["gfx942", "gfx90a:xnack+"],
        tags = ["manual"],
    )
    actions_test(
        name = "package_script_test",
        content = " check --package '--covers=gfx942,gfx90a:xnack+' -- 'tests/analysis/bundle.hipfb' 'tests/analysis/old.hipfb'\n",
        mnemonic = "FileWrite",
        output = "packages.sh",
        target = "packages",
    )
    failure_test(
        name = "package_covers_test",
        srcs = ["old.hipfb"],
        covers = ["mi300"],
        message = "{}: offload_package_test: covers: \"mi300\" is a group of architectures, but a target cannot be a group: name its members, gfx942",
        rule = offload_package_test,
    )
    native.filegroup(
        name = "no_files",
        tags = ["manual"],
    )
    cc_library(
        name = "library_of_package",
        srcs = ["a.c"],
        tags = ["manual"],
    )
    offload_package_test(
        # The program of the test and its files are at these paths.
        name = "package_run_test",
        size = "small",
        srcs = [
            "a.c",
            ":library_of_package",
        ],
    )
    failure_test(
        name = "package_files_test",
        message = "{}: offload_package_test: srcs: expected packages or directories of them, found targets without files: //tests/analysis:no_files",
        rule = offload_package_test,
        srcs = [":no_files"],
        testonly = True,
    )

    offload_binary(
        name = "embedded_binary",
        images = [":images_gfx942"],
        tags = ["manual"],
    )
    offload_embed(
        name = "embedded",
        images = [":embedded_binary"],
        src = "host.o",
        tags = ["manual"],
    )
    offload_report(
        name = "report_embedded",
        tags = ["manual"],
        srcs = [":embedded", ":archive", ":unbundle"],
    )
    code_test(
        name = "report_embedded_test",
        code = [
            "//tests/analysis:embedded_binary offload binary hipv4-amdgcn-amd-amdhsa--gfx942",
            "//tests/analysis:bundle bundle host-x86_64-unknown-linux-gnu- hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+ hipv4-amdgcn-amd-amdhsa--gfx90a:xnack- hipv4-amdgcn-amd-amdhsa--gfx942",
            "//tests/analysis:unbundle images hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+ hipv4-amdgcn-amd-amdhsa--gfx942",
        ],
        target = "report_embedded",
    )
    actions_test(
        name = "embed_test",
        argv = ["embed --input=tests/analysis/host.o --output=BIN/tests/analysis/embedded.o BIN/tests/analysis/embedded_binary.ofb"],
        count = 1,
        mnemonic = "OffloadEmbed",
        output = "embedded.o",
        target = "embedded",
    )
    failure_test(
        name = "embed_empty_test",
        images = [],
        message = "{}: offload_embed: images is empty: add offload_binary targets",
        src = "host.o",
        rule = offload_embed,
    )
    offload_link(
        name = "linked",
        srcs = ["host.o"],
        arch_linkopts = {"amdgcn-amd-amdhsa": ["-nogpulib"]},
        tags = ["manual"],
        deps = [":embedded"],
    )
    actions_test(
        name = "link_test",
        argv = [
            "link --clang=tests/analysis/clang.sh --triple=x86_64-unknown-linux-gnu --output=BIN/tests/analysis/linked.register.o",
            "--whole-archive --device-arg=-link-flag --device-arg=amdgcn-amd-amdhsa=-nogpulib BIN/tests/analysis/libembedded.lo tests/analysis/host.o",
        ],
        count = 1,
        inputs = ["tests/analysis/libembedded.lo", "tests/analysis/clang.sh"],
        mnemonic = "OffloadLink",
        output = "linked.register.o",
        target = "linked",
    )
    failure_test(
        name = "link_empty_test",
        message = "{}: offload_link: nothing to link: deps and srcs have neither objects nor archives",
        rule = offload_link,
        deps = [":hip_lib"],
    )
    for kind, rule, languages in [
        ("hip", hip_library, {"c": ("OffloadHipHostCompile", "c/a.o", "-Dc"), "cxx": ("OffloadHipCompile", "gfx942/sub/a.o", "-Dcxx")}),
        ("openmp", openmp_library, {"c": ("OffloadOpenMpIncludes", "a.full.c", "-Dc"), "cxx": ("OffloadOpenMpCompile", "gfx942/sub/a.bc", "-Dcxx")}),
        ("as_hip", hip_library, {"c": ("OffloadHipCompile", "gfx942/a.o", "-Dcxx"), "host": ("OffloadHipHostCompile", "host/a.o", "-Dcxx")}),
    ]:
        rule(
            name = "languages_" + kind,
            srcs = ["a.c", "sub/a.cc"],
            conlyopts = ["-Dc"],
            copts = ["-Dboth"],
            cxxopts = ["-Dcxx"],
            host_copts = ["-Dhost"],
            offload_archs = ["gfx942"],
            tags = ["manual"],
            **({"c_as_hip": True} if kind == "as_hip" else {})
        )
        for language, (mnemonic, output, flag) in languages.items():
            actions_test(
                name = "languages_{}_{}_test".format(kind, language),
                argv = ["-Dboth " + flag],
                mnemonic = mnemonic,
                not_in_argv = ["-Dc" if flag == "-Dcxx" else "-Dcxx"],
                output = "languages_{}/{}".format(kind, output),
                target = "languages_" + kind,
            )
    for attribute in ["conlyopts", "cxxopts"]:
        failure_test(
            name = "languages_{}_test".format(attribute),
            srcs = ["a.hip", "a.c"],
            message = "{}: " + attribute + ": \"--offload-arch=gfx90a\": architectures belong in offload_archs",
            offload_archs = ["gfx942"],
            rule = hip_library,
            **{attribute: ["--offload-arch=gfx90a"]}
        )

    failure_test(
        name = "languages_x_test",
        srcs = ["a.hip", "a.c"],
        copts = ["-x hip"],
        message = "{}: copts: -x hip: tests/analysis/a.c is compiled as C, for the host only: set c_as_hip = True instead",
        offload_archs = ["gfx942"],
        rule = hip_library,
    )

    hip_library(
        name = "only_headers",
        srcs = ["sub/impl.h"],
        hdrs = ["a.h"],
        device_link = False,
        rdc = True,
        tags = ["manual"],
        deps = [":hip_lib"],
    )
    provides_test(
        name = "only_headers_test",
        defines = ["LIB=1"],
        headers = ["a.h", "sub/impl.h", "lib/lib.h"],
        no_files = True,
        target = "only_headers",
    )
    hip_library(
        name = "shared_lib",
        srcs = ["a.hip"],
        alwayslink = True,
        linkstatic = False,
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    provides_test(
        name = "shared_lib_provides_test",
        files = ["libshared_lib.lo", "libshared_lib.so"],
        groups = {"compilation_outputs": ["shared_lib/host/a.o", "shared_lib/host/a.fatbin.o"]},
        target = "shared_lib",
    )
    hip_library(
        name = "cxx_names",
        srcs = ["sub/b.C", "sub/c.c++"],
        hdrs = ["sub/d.H"],
        includes = ["$(COMPILATION_MODE)"],
        offload_archs = ["gfx942"],
        tags = ["manual"],
    )
    actions_test(
        name = "cxx_names_test",
        argv = ["-I tests/analysis/fastbuild -I BIN/tests/analysis/fastbuild", "tests/analysis/sub/c.c++"],
        count = 2,
        inputs = ["tests/analysis/sub/d.H"],
        mnemonic = "OffloadHipCompile",
        output = "cxx_names/gfx942/sub/c.o",
        target = "cxx_names",
    )
    openmp_library(
        name = "omp",
        srcs = ["a.c", "sub/a.cc"],
        hdrs = ["a.h"],
        arch_linkopts = {"amdgcn-amd-amdhsa": ["-lompdevice"]},
        device_linkopts = ["-Wl,-device"],
        offload_archs = ["gfx90a:xnack+", "x86_64-pc-linux-gnu"],
        tags = ["manual"],
        deps = [":hip_lib"],
    )
    actions_test(
        name = "omp_includes_test",
        argv = [
            "tests/analysis/clang.sh -x c --target=x86_64-unknown-linux-gnu",
            "-E -frewrite-includes",
            "-DLIB=1",
        ],
        count = 2,
        inputs = ["tests/analysis/a.c", "tests/analysis/a.h", "tests/analysis/lib/lib.h"],
        not_in_argv = ["-toolchain-flag", "-fastbuild-flag"],
        mnemonic = "OffloadOpenMpIncludes",
        output = "omp/a.full.c",
        target = "omp",
    )
    actions_test(
        name = "omp_host_ir_test",
        argv = [
            "--stdin=BIN/tests/analysis/omp/a.full.c -- tests/analysis/clang.sh -x c --target=x86_64-unknown-linux-gnu",
            "-fopenmp-targets=amdgcn-amd-amdhsa,x86_64-pc-linux-gnu --offload-host-only -emit-llvm -Xclang -disable-llvm-passes -c",
            "-iquote tests/analysis",
            "-o BIN/tests/analysis/omp/host/a.bc -",
        ],
        count = 2,
        inputs = ["tests/analysis/a.h", "tests/analysis/lib/lib.h", "tests/analysis/omp/a.full.c"],
        mnemonic = "OffloadOpenMpHostCompile",
        output = "omp/host/a.bc",
        target = "omp",
    )
    actions_test(
        name = "omp_device_test",
        argv = [
            "-x c++ -toolchain-flag -fastbuild-flag",
            "--target=x86_64-unknown-linux-gnu -Xclang -triple -Xclang amdgcn-amd-amdhsa -Xclang -target-cpu -Xclang gfx90a -Xclang -tune-cpu -Xclang gfx90a -Xclang -target-feature -Xclang +xnack",
            "-Xclang -fopenmp-host-ir-file-path -Xclang BIN/tests/analysis/omp/host/sub/a.bc -emit-llvm -c",
        ],
        count = 4,
        inputs = ["tests/analysis/omp/host/sub/a.bc", "tests/analysis/omp/sub/a.full.cc"],
        mnemonic = "OffloadOpenMpCompile",
        output = "omp/gfx90a_xnack+/sub/a.bc",
        target = "omp",
    )
    actions_test(
        name = "omp_link_test",
        argv = [
            "--target=x86_64-pc-linux-gnu -fuse-ld=lld -nostdlib -shared -Wl,-Bsymbolic -Wno-unused-command-line-argument -link-flag -Wl,-device " +
            "-o BIN/tests/analysis/omp/x86_64-pc-linux-gnu.img BIN/tests/analysis/omp/x86_64-pc-linux-gnu/a.o BIN/tests/analysis/omp/x86_64-pc-linux-gnu/sub/a.o",
        ],
        count = 2,
        mnemonic = "OffloadDeviceLink",
        output = "omp/x86_64-pc-linux-gnu.img",
        target = "omp",
    )
    actions_test(
        name = "omp_link_gpu_test",
        argv = ["--target=amdgcn-amd-amdhsa -mcpu=gfx90a:xnack+ -nogpulib -flto -Wno-unused-command-line-argument -link-flag -Wl,-device -lompdevice -o BIN/tests/analysis/omp/gfx90a_xnack+.img -Xlinker BIN/tests/analysis/omp/gfx90a_xnack+/a.bc"],
        count = 2,
        mnemonic = "OffloadDeviceLink",
        output = "omp/gfx90a_xnack+.img",
        target = "omp",
    )
    actions_test(
        name = "omp_register_test",
        argv = [
            "--keep-entries=BIN/tests/analysis/omp/host/a.o --keep-entries=BIN/tests/analysis/omp/host/sub/a.o",
            one_argument("--define=registration of //tests/analysis:omp") + " BIN/tests/analysis/omp/gfx90a_xnack+.ofb BIN/tests/analysis/omp/x86_64-pc-linux-gnu.ofb",
        ],
        count = 1,
        mnemonic = "OffloadRegister",
        output = "omp.register.o",
        target = "omp",
    )
    provides_test(
        name = "omp_provides_test",
        files = ["libomp.a"],
        groups = {"compilation_outputs": ["omp/host/a.o", "omp/host/sub/a.o", "omp.register.o"], "gfx90a:xnack+": ["omp/gfx90a_xnack+.img"], "x86_64-pc-linux-gnu": ["omp/x86_64-pc-linux-gnu.img"]},
        images = ["openmp-amdgcn-amd-amdhsa--gfx90a:xnack+ omp/gfx90a_xnack+.img", "openmp-x86_64-pc-linux-gnu- omp/x86_64-pc-linux-gnu.img"],
        target = "omp",
    )
    openmp_library(
        name = "omp_relocatable",
        srcs = ["a.c"],
        relocatable = True,
        tags = ["manual"],
    )
    actions_test(
        name = "omp_relocatable_register_test",
        argv = ["--relocatable", "BIN/tests/analysis/omp_relocatable/x86_64-unknown-linux-gnu.ofb"],
        count = 1,
        mnemonic = "OffloadRegister",
        output = "omp_relocatable.register.o",
        target = "omp_relocatable",
    )
    actions_test(
        name = "omp_relocatable_merge_test",
        argv = [
            "--target=x86_64-unknown-linux-gnu -fuse-ld=lld -nostdlib -r -o BIN/tests/analysis/omp_relocatable.o " +
            "BIN/tests/analysis/omp_relocatable/host/a.o BIN/tests/analysis/omp_relocatable.register.o",
        ],
        count = 1,
        mnemonic = "OffloadMerge",
        output = "omp_relocatable.o",
        target = "omp_relocatable",
    )
    for case, srcs, archs, message in [
        ("kind", ["a.c"], ["hip-amdgcn-amd-amdhsa--gfx90a"], "offload_archs: hip-amdgcn-amd-amdhsa--gfx90a has kind hip, expected openmp"),
        ("no_srcs", [], ["gfx90a"], "srcs is empty: add C or C++ sources, or use cc_library for headers"),
        ("only_headers", ["a.h"], ["gfx90a"], "srcs has only headers: add C or C++ sources"),
        ("no_kind", ["a.c"], ["riscv"], "offload_archs: \"riscv\" is not a processor of LLVM, such as gfx90a, gfx942 or sm_90. If your compiler supports it, write a full entry ID, such as openmp-amdgcn-amd-amdhsa--riscv"),
        ("no_processor", ["a.c"], ["amdgcn-amd-amdhsa-"], "offload_archs: amdgcn-amd-amdhsa is neither a GPU, such as gfx90a and sm_80, nor a CPU, such as x86_64-pc-linux-gnu"),
        ("spirv", ["a.c"], ["openmp-spirv64-amd-amdhsa--amdgcnspirv"], "offload_archs: amdgcnspirv is neither a GPU, such as gfx90a and sm_80, nor a CPU, such as x86_64-pc-linux-gnu"),
    ]:
        failure_test(
            name = "omp_{}_test".format(case),
            srcs = srcs,
            message = "{}: openmp_library: " + message,
            offload_archs = archs,
            rule = openmp_library,
        )
