#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Launches nvcc (backend/CMakeLists.txt) and keeps what ptxas says of the kernels, their registers and spills, in
# OBJECT.ptxas, where tests/lint.sh registers reads it. Everything else is passed on.
object=""
previous=""
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
if [ -z "$object" ]; then exec "$@"; fi
rm -f "$object.ptxas"
"$@" 2>"$object.stderr"
status=$?
# Two lines about each function are not marked: its stack, and what it is named.
pattern='^ptxas info|^ +[0-9]+ bytes stack frame'
grep -Ev "$pattern" "$object.stderr" >&2
if [ $status -eq 0 ]; then grep -E "$pattern" "$object.stderr" >"$object.ptxas"; fi
rm -f "$object.stderr"
exit $status
