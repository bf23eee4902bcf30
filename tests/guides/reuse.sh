#!/usr/bin/env bash
# Stands before the compiler in a copy of the tree (follow.py), in its build folder: the object of a source that is the same in both is
# that of another build, and all else is compiled.
#   VENTRIS_REUSED    the other build folder
#   VENTRIS_COMPILED  a file with the sources that differ, one a line
object="" source="" before=""
for argument in "$@"; do
  case $before in
    -o) object=$argument ;;
    -c) source=$argument ;;
  esac
  before=$argument
done
# An object that is older than its source was not built since that changed.
if [[ -n $source && $VENTRIS_REUSED/$object -nt $source ]] && ! grep -qxF -- "$source" "$VENTRIS_COMPILED"; then
  exec cp -- "$VENTRIS_REUSED/$object" "$object"
fi
exec "$@"
