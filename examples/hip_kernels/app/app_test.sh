#!/usr/bin/env bash
# Compares the kernels and variables that the program registers, and its launches, with what they should be.
# The order of the libraries' registrations is that of the link.
set -euo pipefail
diff <(sort "$2") <("$1" | grep -E 'kernel|variable|launch' | sed 's/intern\.[0-9a-f]*/intern.ID/' | sort)
