#!/usr/bin/env bash
# Runs a program: its result is right, or HIP's runtime has registered its kernels and found no GPU to run them on.
set -euo pipefail
output=$("$1")
printf '%s\n' "$output"
[[ $output == right || $output == 'no GPU: '* ]]
