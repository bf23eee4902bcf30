#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stands before the compiler in a copy of the tree (follow.py), in its build folder: the object of a source that is the same in both is
# that of another build, and all else is compiled.
#   VENTRIS_REUSED    the other build folder
#   VENTRIS_COMPILED  a file with the sources that differ, one a line
#   VENTRIS_GROWN     a file with an object and a header in each line: it is compiled if that header differs
object="" source="" dependencies="" before=""
for argument in "$@"; do
  case $before in
    -o) object=$argument ;;
    -c) source=$argument ;;
    -MF) dependencies=$argument ;;
  esac
  before=$argument
done
# Of a group of sources (cmake/source_groups.cmake) its members count, whose names are relative to the root.
members=("$source")
if [[ $source == */groups/* ]]; then
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  mapfile -t members < <(sed -n "s,^#include \"\(.*\)\"\$,$root/\1,p" "$source")
fi
mapfile -t headers < <(sed -n "s,^$object ,,p" "$VENTRIS_GROWN")
# An object that is older than its source was not built since that changed.
same=true
for member in "${members[@]}"; do
  if [[ -z $member || ! $VENTRIS_REUSED/$object -nt $member ]] || grep -qxF -- "$member" "$VENTRIS_COMPILED"; then same=false; fi
done
for header in "${headers[@]}"; do
  if grep -qxF -- "$header" "$VENTRIS_COMPILED"; then same=false; fi
done
if $same; then
  # For a later change of a member; other headers are left out, as what the compiler wrote is gone.
  if [[ -n $dependencies ]]; then printf '%s: %s\n' "$object" "${members[*]} ${headers[*]}" >"$dependencies"; fi
  exec cp -- "$VENTRIS_REUSED/$object" "$object"
fi
exec "$@"
