#!/usr/bin/env bash
# Compares the fat binaries, kernels and variables that the program registers, and its launches, with what they should be.
set -euo pipefail
diff <(sort "$2") <("$1" | grep -E 'HIPF|compressed|kernel|variable|launch' | sort)
