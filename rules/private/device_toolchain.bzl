"""device_toolchain declares a device compiler and its toolchain target, and how the toolchain is selected."""

load("@bazel_skylib//lib:selects.bzl", "selects")
load(":rocm_libraries.bzl", "ROCM_TYPE")
load(":toolchains.bzl", "DEVICE_TYPE", "offload_device_toolchain")

_SETTING = Label("//rules/settings:device_compiler")

def device_toolchain(name, compiler_name = None, exec_compatible_with = [], **kwargs):
    """Declares an `offload_device_toolchain` and the `toolchain` to register.

    Register the targets `NAME_toolchain` and `NAME_rocm_toolchain`. Bazel can select it if the setting
    `//rules/settings:device_compiler` is empty or has the value `compiler_name`.

    ```starlark
    device_toolchain(
        name = "clang_22",
        clang = "bin/clang",
        exec_compatible_with = ["@platforms//os:linux", "@platforms//cpu:x86_64"],
        files = glob(["bin/*", "lib/**"]),
    )
    ```

    Args:
      name: name of the `offload_device_toolchain`.
      compiler_name: name of the compiler in the setting; `name` by default.
      exec_compatible_with: constraints of the execution platforms of the compiler.
      **kwargs: attributes of `offload_device_toolchain`.
    """
    offload_device_toolchain(
        name = name,
        **kwargs
    )
    chosen_by_name(
        name = name,
        compiler = name,
        compiler_name = compiler_name or name,
        exec_compatible_with = exec_compatible_with,
    )

_NO_LIBRARIES = Label("//rules/private:no_rocm_libraries")

def chosen_by_name(name, compiler, compiler_name, exec_compatible_with, libraries = None):
    """Declares the `toolchain` of a device compiler and that of its libraries, which the setting `//rules/settings:device_compiler` selects.

    Args:
      name: the toolchains are `NAME_toolchain` and `NAME_rocm_toolchain`.
      compiler: label of the `offload_device_toolchain`.
      compiler_name: name of the compiler in the setting.
      exec_compatible_with: constraints of the execution platforms of the compiler.
      libraries: label of the `rocm_libraries` of its ROCm; None without ROCm.
    """
    native.config_setting(
        name = name + "_asked_for",
        flag_values = {_SETTING: compiler_name},
    )
    native.config_setting(
        name = name + "_first",
        flag_values = {_SETTING: ""},
    )
    selects.config_setting_group(
        name = name + "_chosen",
        match_any = [name + "_asked_for", name + "_first"],
    )
    for suffix, toolchain, toolchain_type in [
        ("_toolchain", compiler, DEVICE_TYPE),
        ("_rocm_toolchain", libraries or _NO_LIBRARIES, ROCM_TYPE),
    ]:
        native.toolchain(
            name = name + suffix,
            exec_compatible_with = exec_compatible_with,
            target_settings = [name + "_chosen"],
            toolchain = toolchain,
            toolchain_type = toolchain_type,
        )
