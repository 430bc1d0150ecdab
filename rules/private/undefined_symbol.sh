#!/bin/sh
# lld calls this for each symbol that device code uses and nobody defines:
# undefined_symbol.sh undefined-symbol NAME
[ "$1" = undefined-symbol ] || exit 0
cat >&2 <<END
offload: no device code defines $2, which lld names the users of below.
If it is in another source of the target, set rdc = True.
If it is in another target, list that in device_deps: a device_bitcode_library, or with rdc = True a hip_library or hip_code_objects.
END
