#!/usr/bin/env bash
# Copies programs and their shared libraries, for machines that lack these libraries.
# Usage: tests/pack.sh FOLDER PROGRAM...
# FOLDER/NAME starts each program with the libraries in FOLDER/libs, except the C library, which is that of the machine. Other
# programs, such as a Python with PyTorch, do not use them.
set -euo pipefail

if (($# < 2)) || [[ $1 == --* ]]; then
  sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 64
fi
folder=$1
shift
mkdir -p "$folder/libs"
for program in "$@"; do
  name=$(basename "$program")
  missing=$(ldd "$program" | awk '/not found/ {print $1}')
  if [[ -n $missing ]]; then
    printf 'error: %s was not found, but %s needs it\n' "$missing" "$program" >&2
    exit 66
  fi
  cp "$program" "$folder/libs/$name"
  ldd "$program" | awk '$2 == "=>" {print $3}' | { grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)[.]so' || true; } |
    xargs -r cp -L -u -t "$folder/libs"
  cat >"$folder/$name" <<EOF
#!/bin/sh
folder=\$(dirname "\$(readlink -f "\$0")")
LD_LIBRARY_PATH=\$folder/libs exec "\$folder/libs/$name" "\$@"
EOF
  chmod +x "$folder/$name"
done
