"""openmp_library compiles C and C++ with OpenMP target regions for C++ programs."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "OffloadDeviceBitcodeInfo", "OffloadImagesInfo", "offload_image")
load(":architectures.bzl", "ARCHITECTURES_ATTRS", "arch_copts_of", "architectures_of", "check_compiler")
load(":cc_flags.bzl", "cc_configuration", "device_flags", "host_environment", "host_flags", "without_inclusions")
load(":clang.bzl", "CLANG_GROUPS", "COMPILE_GROUP", "HEADERS", "LINK_GROUP", "add_headers", "clang_arguments", "object_names", "run_clang", "source_name", "sources_of")
load(":device_bitcode.bzl", "add_bitcode", "bitcode_for")
load(":device_link.bzl", "AMDGPU_FEATURES", "DEVICE_LINKOPTS_DOC", "add_amdgpu_lto", "code_generation_flags", "flags_for", "flags_of_device")
load(":flags.bzl", "add_flags", "expand_flags")
load(":images.bzl", "image_groups")
load(":libraries.bzl", "LIBRARY_ATTRS", "library_headers", "library_providers", "merged_object", "parse_headers")
load(":linking.bzl", "HOST_ATTRS", "host_triple", "isolate_objects", "register_images")
load(":messages.bzl", "place")
load(":offload_binary.bzl", "add_image")
load(":processors.bzl", "INSTRUCTION_SETS")
load(":program.bzl", "PROGRAM_GROUPS", "offload_arguments", "run_offload")
load(":ptx.bzl", "ptx_feature")
load(":target_ids.bzl", "target_ids")
load(":toolchains.bzl", "DEVICE_ATTRS", "device_toolchain_of")

_KIND = "openmp"

# Clang includes the device and inode numbers of the file with a target region in
# the name of its kernel. They differ between machines, so that a host compilation
# and a device compilation on different machines would use different names. Only if
# there is no such file, as for standard input, clang uses just the function and line.
# So each source is written once with all its headers (-frewrite-includes), and all
# compilations read the result from standard input. This step changes the text:
# - It adds empty lines at the start, a different number for each source, so that
#   static functions with the same name have different line numbers.
# - It restores conditions, which were evaluated for the host, so that the device compilation evaluates them.
# - It restores the inclusion of headers that the host does not include, which clang disables as well. Files that the
#   host reads anywhere are in the text, which may contain `#pragma once`, and stay disabled.
# - Line markers name files like labels, with `//` at the start. The names are for messages; no such file exists.
_MOST_LINES = 100003

# For GPUs, clang's driver adds its own headers before those of the system. They declare variants of mathematical
# functions, among others. They are part of the text, too; conditions guard their device code.
_WRAPPERS = """wrappers() {
    local headers
    headers=$("$1" -no-canonical-prefixes -print-resource-dir)/include
    flags=(-isystem "$headers/openmp_wrappers" -isystem "$headers/llvm_libc_wrappers")
    functions=__clang_openmp_device_functions.h
    if [[ ! -e $headers/openmp_wrappers/$functions ]]; then functions=; fi
}
"""
_WRITE_OUT = """set -eu -o pipefail
out=$1 lines=$2 gpu=$3
shift 3
flags=()
if [[ $gpu ]]; then wrappers "$1"; fi
{
    printf "%${lines}s" | tr ' ' '\\n'
    "$@" "${flags[@]}" | awk '
        { lines[NR] = $0 }
        /^# [0-9]+ ".*" 1( |$)/ {
            path = $0
            sub(/^[^"]*"/, "", path)
            sub(/"[^"]*$/, "", path)
            for (read[path] = 1; sub(/^[^\\/]*\\//, "", path); read[path] = 1) {}
        }
        END {
            folder = ""
            for (i = 1; i <= NR; i++) {
                if (lines[i] ~ /^# [0-9]+ "/) {
                    folder = lines[i]
                    sub(/^[^"]*"/, "", folder)
                    sub(/[^\\/]*$/, "", folder)
                }
                name = lines[i + 1]
                if (lines[i] != "#if 0 /* expanded by -frewrite-includes */" || name !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) {
                    print lines[i]
                    continue
                }
                quoted = name ~ /^[^<]*"/
                sub(/^[^"<]*["<]/, "", name)
                sub(/[">].*$/, "", name)
                if (name in read) {
                    print lines[i]
                    continue
                }
                if (quoted && folder != "" && name !~ /^\\//) {
                    print "#if __has_include(\\"" folder name "\\")"
                    print "#include \\"" folder name "\\""
                    print "#else"
                    print lines[i + 1]
                    print "#endif"
                } else {
                    print lines[i + 1]
                }
                i += 2
            }
        }' | sed -E '
        /^#if 0 \\/\\* disabled by -frewrite-includes \\*\\/$/ {
            :more
            N
            /\\n#endif \\/\\* disabled by -frewrite-includes \\*\\/$/ !b more
            N
            s/^[^\\n]*\\n#if 0\\n([ \\t]*#[ \\t]*el.*)\\n#endif\\n[^\\n]*\\n[^\\n]*$/\\1/
            s/^#if 0 \\/\\* disabled[^\\n]*\\n(.*)\\n#endif\\n[^\\n]*\\n[^\\n]*$/\\1/
        }
        s|^(# [0-9]+ ")/|\\1//system/|
        s|^(# [0-9]+ ")([^/<"])|\\1//\\2|
    '
} > "$out"
"""
_COMPILE = """exec "${@:2}" < "$1\""""
_COMPILE_FOR_GPU = """set -eu
wrappers "$2"
if [[ $functions ]]; then flags+=(-include "$functions"); fi
exec "${@:2}" "${flags[@]}" < "$1\""""

def _is_nvidia(target):
    return target.triple.startswith("nvptx64-")

def _triple(target):
    triple = target.triple.removesuffix("-")
    return triple.removesuffix("-unknown") if _is_nvidia(target) else triple

def _folder(target):
    return target_ids.file_name(target.target_id or _triple(target))

# From this release on, the triple of an AMD GPU has its instruction set, and the settings of a target ID are flags of the
# module, which only these flags of the compiler set.
_INSTRUCTION_SETS_SINCE = 24
_SETTING_FLAGS = {"+": "-m", "-": "-mno-"}

def _add_target(args, target, host, release):
    """Adds the flags for the target of a device compilation.

    The driver cannot compile only for a device: it would first compile for the
    host, from the same standard input. So these flags make the driver compile for
    the host, where it finds the system's headers, and cc1 for the device.
    """

    # Flags that the driver adds for all devices, and those for GPUs that differ from the host.
    args.add("-fvisibility=protected")
    if not target.target_id:
        args.add(_triple(target), format = "--target=%s")
        return
    args.add_all(["-fno-math-errno", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"])
    args.add(host, format = "--target=%s")
    parts = target.target_id.split(":")
    triple = _triple(target)
    features = [feature[-1] + feature[:-1] for feature in parts[1:]]
    if target_ids.is_amdgpu(target.triple) and release >= _INSTRUCTION_SETS_SINCE:
        args.add_all([feature for setting in features for feature in ["-Xclang", _SETTING_FLAGS[setting[0]] + setting[1:]]])
        features = []
        if parts[0] in INSTRUCTION_SETS:
            triple = "amdgpu{}-{}".format(INSTRUCTION_SETS[parts[0]], triple.partition("-")[2])
    if _is_nvidia(target):
        # As with -fopenmp-target-jit, the link writes bitcode, and the runtime generates code from it.
        args.add_all(["-flto", "-fno-threadsafe-statics", "-mllvm", "-enable-memcpyopt-without-libcalls", "-Xclang", "-fcuda-is-device", "-Xclang", "-mframe-pointer=all"])
        if ptx_feature(parts[0]):
            features.append(ptx_feature(parts[0]))
    for flag, value in [
        ("-triple", triple),
        ("-target-cpu", parts[0]),
        ("-tune-cpu", parts[0]),
    ] + [("-target-feature", feature) for feature in features]:
        args.add_all(["-Xclang", flag, "-Xclang", value])

# The prefix of a flag that the driver accepts only for AMD GPUs, and its translation.
_CODE_OBJECT_VERSION = "-mcode-object-version="

def _flags_of_gpu(flags, target):
    """Returns flags for a GPU in the form that the driver passes on in a compilation for the host."""
    result = []
    version = None
    for flag in flags_of_device(flags, target):
        if flag in AMDGPU_FEATURES:
            result.extend(["-Xclang", "-target-feature", "-Xclang", AMDGPU_FEATURES[flag]])
        elif flag.startswith(_CODE_OBJECT_VERSION):
            version = flag
        else:
            result.append(flag)
    if version:
        result.extend(["-Xclang", version, "-mllvm", "--amdhsa-code-object-version=" + version.removeprefix(_CODE_OBJECT_VERSION)])
    return result

def _folder_of(src):
    return src.dirname or "."

def _language(src):
    return "c" if src.extension == "c" else "c++"

def _add_name(args, src):
    """Sets the name in debug information of a source that the compiler reads from standard input."""
    args.add_all(["-Xclang", "-main-file-name", "-Xclang"])
    args.add(src, format = "//%s")

def _add_language(args, src):
    args.add_all(["-fopenmp", "-fPIC", "-nogpulib"])
    args.add_all([src], before_each = "-iquote", map_each = _folder_of)

def _host_copts(ctx):
    return expand_flags(ctx, "copts") + expand_flags(ctx, "host_copts")

def _host_arguments(ctx, src, flags, out):
    args = clang_arguments(ctx)
    args.add_all(["-x", _language(src)])
    args.add(host_triple(ctx), format = "--target=%s")
    add_flags(args, flags, out)
    _add_language(args, src)
    return args

def _device_arguments(ctx, toolchain, src):
    args = clang_arguments(ctx)
    args.add_all(["-x", _language(src)])
    args.add_all(toolchain.compile_flags)
    args.add_all(toolchain.mode_flags[ctx.var["COMPILATION_MODE"]])
    _add_language(args, src)
    return args

def _empty_lines(ctx, srcs):
    """Returns the number of empty lines before each source; all numbers differ."""
    counts = {}
    for src in srcs:
        count = hash("{} {}".format(ctx.label, src.short_path)) % _MOST_LINES
        for _ in srcs:
            if count + 1 not in counts:
                break
            count = (count + 1) % _MOST_LINES
        counts[count + 1] = None
    return counts.keys()

def _written_out(ctx, toolchain, cc, headers, src, name, empty_lines, gpu):
    out = ctx.actions.declare_file("{}/{}.full.{}".format(ctx.label.name, name, src.extension))
    before = ctx.actions.args()
    before.add(out)
    before.add(empty_lines)
    before.add("gpu" if gpu else "")
    args = _host_arguments(ctx, src, host_flags(ctx, cc, _language(src)), out)
    args.add_all(["-E", "-frewrite-includes"])
    add_headers(args, headers, out)
    add_flags(args, _host_copts(ctx), out)
    args.add(src)
    run_clang(
        ctx,
        arguments = args,
        command = _WRAPPERS + _WRITE_OUT,
        command_arguments = before,
        env = host_environment(cc, _language(src)),
        group = COMPILE_GROUP,
        headers = headers.headers,
        inputs = depset([src], transitive = [headers.files, cc.toolchain.all_files]),
        mnemonic = "OffloadOpenMpIncludes",
        out = out,
        progress_message = "Including headers in {}".format(src.short_path),
        toolchain = toolchain,
    )
    return out

def _stdin(ctx, file):
    before = ctx.actions.args()
    before.add(file)
    return before

def _host_ir(ctx, toolchain, cc, headers, src, full, name, targets):
    out = ctx.actions.declare_file("{}/host/{}.bc".format(ctx.label.name, name))
    args = _host_arguments(ctx, src, without_inclusions(host_flags(ctx, cc, _language(src))), out)
    _add_name(args, src)
    triples = {_triple(target): None for target in targets}
    args.add_joined(triples.keys(), join_with = ",", format_joined = "-fopenmp-targets=%s")

    # The passes run only once, when the object is generated. Otherwise, a sanitizer would instrument the code twice.
    args.add_all(["--offload-host-only", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-c"])
    add_headers(args, headers, out)
    add_flags(args, without_inclusions(_host_copts(ctx)), out)
    args.add("-o", out)
    args.add("-")
    run_clang(
        ctx,
        arguments = args,
        command = _COMPILE,
        command_arguments = _stdin(ctx, full),
        env = host_environment(cc, _language(src)),
        group = COMPILE_GROUP,
        headers = headers.headers,
        inputs = depset([full], transitive = [headers.files, cc.toolchain.all_files]),
        mnemonic = "OffloadOpenMpHostCompile",
        out = out,
        progress_message = "Compiling {} for the host".format(src.short_path),
        stdin = full,
        toolchain = toolchain,
    )
    return out

def _host_object(ctx, toolchain, cc, src, ir, name):
    out = ctx.actions.declare_file("{}/host/{}.o".format(ctx.label.name, name))
    args = clang_arguments(ctx)
    args.add(host_triple(ctx), format = "--target=%s")
    add_flags(args, without_inclusions(host_flags(ctx, cc, _language(src)) + _host_copts(ctx)), out)
    args.add_all(["-fPIC", "-x", "ir", "-c", "-o", out, ir])
    run_clang(
        ctx,
        arguments = args,
        env = host_environment(cc, _language(src)),
        group = COMPILE_GROUP,
        inputs = depset([ir] + ctx.files.additional_compiler_inputs, transitive = [cc.toolchain.all_files]),
        mnemonic = "OffloadOpenMpHostObject",
        out = out,
        progress_message = "Generating %{output}",
        toolchain = toolchain,
    )
    return out

def _device_object(ctx, toolchain, cc, headers, src, full, ir, name, target, folder, bitcode):
    gpu = bool(target.target_id)
    out = ctx.actions.declare_file("{}/{}/{}.{}".format(ctx.label.name, folder, name, "bc" if gpu else "o"))
    host = host_triple(ctx)
    args = _device_arguments(ctx, toolchain, src)
    _add_name(args, src)
    _add_target(args, target, host, toolchain.release)
    args.add_all(["-Xclang", "-fopenmp-is-target-device", "-Xclang", "-aux-triple", "-Xclang", host])
    args.add_all(["-Xclang", "-fopenmp-host-ir-file-path", "-Xclang", ir])
    args.add_all(["-emit-llvm"] if gpu else [])
    args.add("-c")
    add_headers(args, headers, out)
    for_cpu = host.split("-")[0] == target.triple.split("-")[0]
    flags = without_inclusions(device_flags(ctx, cc, _language(src), for_cpu = for_cpu, parses_host = gpu) + expand_flags(ctx, "copts")) + expand_flags(ctx, "device_copts") + arch_copts_of(ctx, target)
    add_flags(args, _flags_of_gpu(flags, target) if gpu else flags, out)
    add_bitcode(args, bitcode)
    args.add("-o", out)
    args.add("-")
    run_clang(
        ctx,
        arguments = args,
        command = _WRAPPERS + _COMPILE_FOR_GPU if gpu else _COMPILE,
        command_arguments = _stdin(ctx, full),
        group = COMPILE_GROUP,
        headers = headers.headers,
        inputs = depset([full, ir] + bitcode, transitive = [headers.files, cc.toolchain.all_files]),
        mnemonic = "OffloadOpenMpCompile",
        out = out,
        progress_message = "Compiling {} for {}".format(src.short_path, target.target_id or _triple(target)),
        stdin = full,
        toolchain = toolchain,
    )
    return out

_UNDEFINED = "add a definition to srcs, or add the device_bitcode_library that has one to device_deps; for symbols that begin with __kmpc_, add LLVM's device runtime to device_linkopts"

def _has_library(flags):
    """Reports whether flags of a link can name LLVM's device runtime, or allow undefined symbols."""
    for flag in flags:
        if flag.startswith(("-l", "-Wl,", "-Xlinker", "@")) or flag.endswith((".a", ".bc", ".o")):
            return True
    return False

def _link(ctx, toolchain, linked, target, folder):
    objects = [object.file for object in linked]
    out = ctx.actions.declare_file("{}/{}.img".format(ctx.label.name, folder))
    args = clang_arguments(ctx)
    args.add(_triple(target), format = "--target=%s")
    if _is_nvidia(target):
        args.add(target.target_id, format = "-march=%s")
        args.add_all([ptx_feature(target.target_id)], format_each = "--cuda-feature=%s", omit_if_empty = True)
        args.add_all(["-flto", "-Wl,--lto-emit-llvm"])
    elif target.target_id:
        args.add(target.target_id, format = "-mcpu=%s")
        args.add("-nogpulib")
    else:
        # The program is linked with the libraries that the image uses.
        args.add_all(["-fuse-ld=lld", "-nostdlib", "-shared", "-Wl,-Bsymbolic"])
    args.add("-Wno-unused-command-line-argument")
    if target.target_id:
        copts = device_flags(ctx) + expand_flags(ctx, "copts") + expand_flags(ctx, "device_copts") + arch_copts_of(ctx, target)
        add_flags(args, code_generation_flags(toolchain.compile_flags + toolchain.mode_flags[ctx.var["COMPILATION_MODE"]] + copts, target), out)
    args.add_all(toolchain.link_flags)
    linkopts = flags_for(target, expand_flags(ctx, "device_linkopts"))
    add_flags(args, linkopts, out)
    args.add("-o", out)
    if _is_nvidia(target):
        args.add_all(objects, before_each = "-Xlinker")
    elif target.target_id:
        add_amdgpu_lto(args, objects, hip = False)
    else:
        args.add_all(objects)
    run_clang(
        ctx,
        arguments = args,
        advice = _UNDEFINED,
        group = LINK_GROUP,
        inputs = depset(objects),
        linked = linked,
        mnemonic = "OffloadDeviceLink",
        out = out,
        progress_message = "Linking %{label} for " + (target.target_id or _triple(target)),
        toolchain = toolchain,
        without_runtime = target.target_id if target_ids.is_amdgpu(target.triple) and not _has_library(toolchain.link_flags + linkopts) else "",
    )
    return offload_image(
        file = out,
        kind = _KIND,
        label = ctx.label,
        target_id = target.target_id,
        triple = target.triple,
    )

def _pack(ctx, image, folder, where):
    # The runtime reads the target from the package, not from the image.
    out = ctx.actions.declare_file("{}/{}.ofb".format(ctx.label.name, folder))
    args = offload_arguments(ctx, "pack")
    args.add(out, format = "--output=%s")
    add_image(args, image, where)
    run_offload(
        ctx,
        arguments = args,
        inputs = [image.file],
        mnemonic = "OffloadPack",
        outputs = [out],
        progress_message = "Packing %{input}",
    )
    return out

def _openmp_library_impl(ctx):
    where = place(ctx, "openmp_library")
    if not sources_of(ctx):
        fail("{}: srcs is empty: add C or C++ sources".format(where))
    targets = architectures_of(ctx, where, _KIND, default = [host_triple(ctx)])
    for target in targets:
        if target.kind != _KIND:
            fail("{}: offload_archs: {} has kind {}, expected openmp".format(where, target_ids.entry_id(target.kind, target.triple, target.target_id), target.kind))
        if target.triple.startswith("spirv64-") or (target_ids.is_amdgpu(target.triple) or _is_nvidia(target)) != bool(target.target_id):
            fail("{}: offload_archs: {} is neither a GPU, such as gfx90a and sm_80, nor a CPU, such as x86_64-pc-linux-gnu".format(
                where,
                target.target_id or _triple(target),
            ))
    compiler = device_toolchain_of(ctx, COMPILE_GROUP)
    linker = device_toolchain_of(ctx, LINK_GROUP)
    check_compiler(compiler, targets, where)
    cc = cc_configuration(ctx)
    headers = library_headers(ctx, cc)

    objects = []
    device_objects = {}
    for src, name, empty_lines in zip(sources_of(ctx), object_names(ctx, sources_of(ctx)), _empty_lines(ctx, sources_of(ctx))):
        full = _written_out(ctx, compiler, cc, headers, src, name, empty_lines, gpu = any([target.target_id for target in targets]))
        ir = _host_ir(ctx, compiler, cc, headers, src, full, name, targets)
        objects.append(_host_object(ctx, compiler, cc, src, ir, name))
        for target in targets:
            folder = _folder(target)

            # The image for a CPU calls functions of the program.
            bitcode = bitcode_for(ctx.attr.device_deps, target, where) if target.target_id else []
            device_objects.setdefault(folder, []).append(struct(
                file = _device_object(ctx, compiler, cc, headers, src, full, ir, name, target, folder, bitcode),
                source = source_name(ctx.label, src),
            ))
    images = []
    packages = []
    for target in targets:
        folder = _folder(target)
        image = _link(ctx, linker, device_objects[folder], target, folder)
        images.append(image)
        packages.append(_pack(ctx, image, folder, where))

    objects = isolate_objects(ctx, objects)
    objects.append(register_images(ctx, files = packages, kind = _KIND, own_entries = objects, relocatable = ctx.attr.relocatable))
    if ctx.attr.relocatable:
        objects = [merged_object(ctx, objects)]
    return library_providers(ctx, headers = headers, objects = objects, runtime = ctx.attr._runtime) + [
        OffloadImagesInfo(images = depset(images)),
        OutputGroupInfo(
            _validation = depset(parse_headers(ctx, cc = cc, headers = headers, language = ["-x", "c++", "-fopenmp"])),
            **image_groups(images)
        ),
    ]

openmp_library = rule(
    implementation = _openmp_library_impl,
    doc = """Compiles C and C++ sources with OpenMP target regions to a library for C++ programs.

Separate actions compile the host code and, for each target, the device code of each source. The device code of all sources
is linked together for each target. The library registers its own images. A program can contain any number of such
libraries, also from other build systems.

Targets are AMD GPUs (`gfx90a`) and the CPU itself (`x86_64-pc-linux-gnu`). The CPU is the default if `offload_archs` and
the setting are empty. For GPUs, `device_linkopts` must include LLVM's device runtime:

<!-- not run: names a directory with LLVM's device runtime; tests/devicecode links for GPUs. -->
```starlark
openmp_library(
    name = "stats",
    srcs = ["stats.cc"],
    hdrs = ["stats.h"],
    device_linkopts = ["amdgcn-amd-amdhsa=" + flag for flag in ["-L/sw/llvm/lib/amdgcn-amd-amdhsa", "-lompdevice"]],
    offload_archs = ["gfx90a"],
)
```

Without it, the build fails with a message that says whether this LLVM has the runtime.

For NVIDIA GPUs (`sm_80`), the image is LLVM bitcode, as with `clang -fopenmp-target-jit`. The build does not require CUDA.
The runtime generates the code with CUDA's `ptxas` when the program starts.

The names of kernels do not depend on the machine or directory of a build, even for target regions in headers. Therefore,
the actions can be cached and run remotely. Messages and debug information refer to files as `//stats/scale.cc`, and to
files outside of the workspace as `//system/usr/include/omp.h`.

The setting `//rules/settings:openmp_runtime` selects the runtime. The default is `-lomptarget -lomp`.

Default outputs: the objects of the library.

Output groups: `gfx90a`, `x86_64-pc-linux-gnu` and so on, the image of one target; `_validation`, the headers with the feature `parse_headers`.
""",
    attrs = DEVICE_ATTRS | LIBRARY_ATTRS | ARCHITECTURES_ATTRS | HOST_ATTRS | {
        "device_deps": attr.label_list(
            doc = "`device_bitcode_library` targets whose functions are called by device code for AMD GPUs. They must be compiled for the same architectures.",
            providers = [OffloadDeviceBitcodeInfo],
        ),
        "device_linkopts": attr.string_list(
            doc = DEVICE_LINKOPTS_DOC,
        ),
        "relocatable": attr.bool(
            doc = "Whether to merge the library into one object that requires only the runtime. Archives can contain the object, and so can " +
                  "programs that clang links with `-fopenmp --offload-arch`; their device link ignores its images.",
        ),
        "srcs": attr.label_list(
            doc = "C or C++ sources. Each source is compiled separately. Only the sources of this target can include headers in this list.",
            mandatory = True,
            allow_files = [".c", ".cpp", ".cc", ".cxx"] + HEADERS,
        ),
        "_runtime": attr.label(
            default = "//rules/settings:openmp_runtime",
            providers = [CcInfo],
        ),
    },
    exec_groups = CLANG_GROUPS | PROGRAM_GROUPS,
    fragments = ["cpp"],
    provides = [CcInfo, OffloadImagesInfo],
    toolchains = use_cc_toolchain(),
)
