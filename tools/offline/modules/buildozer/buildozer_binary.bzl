"""The module extension that Bazel's own tools name, with a repository that holds nothing."""

def _empty_repository_impl(rctx):
    rctx.file("BUILD.bazel", "# Offline there is no buildozer: `bazel mod tidy` does not work.\n")

_empty_repository = repository_rule(implementation = _empty_repository_impl)

def _buildozer_binary_impl(_mctx):
    _empty_repository(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _buildozer_binary_impl)
