#!/usr/bin/env bash
# Compares what is in files with what should be: kind, triple, processor and format of each image.
set -euo pipefail
program=$1 expected=$2
shift 2
for file; do "$program" inspect "$file" | awk 'NR > 1 { print $1, $2, $3, $4 }'; done | diff "$expected" -
