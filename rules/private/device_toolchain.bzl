"""device_toolchain: a device compiler and its toolchain target; how the toolchain is chosen."""

load("@bazel_skylib//lib:selects.bzl", "selects")
load(":toolchains.bzl", "DEVICE_TYPE", "offload_device_toolchain")

_SETTING = Label("//rules/settings:device_compiler")

def device_toolchain(name, compiler_name = None, exec_compatible_with = [], **kwargs):
    """An `offload_device_toolchain` and the `toolchain` to register.

    The target to register is `NAME_toolchain`. It is chosen when the setting
    `//rules/settings:device_compiler` is empty or says `compiler_name`.

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
      compiler_name: what the setting calls it; `name` if not given.
      exec_compatible_with: where the compiler runs.
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

def chosen_by_name(name, compiler, compiler_name, exec_compatible_with):
    """The `toolchain` of a device compiler, which the setting `//rules/settings:device_compiler` chooses.

    Args:
      name: the toolchain is `NAME_toolchain`.
      compiler: label of the `offload_device_toolchain`.
      compiler_name: what the setting calls it.
      exec_compatible_with: where the compiler runs.
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
    native.toolchain(
        name = name + "_toolchain",
        exec_compatible_with = exec_compatible_with,
        target_settings = [name + "_chosen"],
        toolchain = compiler,
        toolchain_type = DEVICE_TYPE,
    )
