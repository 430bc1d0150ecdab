"""The lock of the programs that belong to this version of the rules.

It is empty in a checkout. `tools/release` writes the programs that it built into the copy in the archive of a release.
"""

# From "OS-CPU", in the words of @platforms, to the `url` and `sha256` of the program.
PROGRAMS = {}
