#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks and measures the program on a machine with one GPU, from an archive of pack.sh, with nothing installed. All that is to be known of a
# card fits into a lease of fifteen minutes, as two calls:
#   PYTHON=python3 tests/gpu/lease.sh ARCHIVE --output results --call A
#   PYTHON=python3 tests/gpu/lease.sh ARCHIVE --output results --call B
# Usage: tests/gpu/lease.sh ARCHIVE [--call A|B] [--output FOLDER] [--budget SECONDS] [STAGE...]
#        tests/gpu/lease.sh [ARCHIVE] --list
#   ARCHIVE   of tests/gpu/pack.sh; it also holds this script, which needs no other file of the tree
#   --call    the stages of one call, in the order of --list; default: both
#   --output  folder for at most eight result files, summary.md first; default: gpu_results. Results of earlier calls that are
#             there stay in the tables
#   --budget  seconds for all stages; default: 380 of call A, 275 of call B
#   STAGE     only these
# PYTHON in the environment: a Python with PyTorch for CUDA; default: python3. LD_LIBRARY_PATH is extended, never replaced.
set -euo pipefail

usage() {
  sed -n '3,16s/^# \?//p' "${BASH_SOURCE[0]}"
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if (($# == 1)) && [[ $1 == --list && -e $here/lease.py ]]; then exec python3 "$here/lease.py" --list; fi
if (($# == 1)) && [[ $1 == --help ]]; then usage && exit 0; fi
if (($# == 0)) || [[ $1 == --* ]]; then
  usage >&2
  exit 64
fi
archive=$1
shift
if [[ ! -r $archive ]]; then
  printf 'error: there is no archive %s; make one with tests/gpu/pack.sh on a machine with the packages of launch/setup.sh\n' "$archive" >&2
  exit 66
fi
if ! command -v python3 >/dev/null; then
  echo 'error: there is no python3, which the stages need' >&2
  exit 69
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/ventris-gpu-XXXXXX")
trap 'rm -rf "$work"' EXIT
# By Python, as xz may be missing.
python3 - "$archive" "$work" <<'END'
import sys
import tarfile

try:
    with tarfile.open(sys.argv[1]) as archive:
        archive.extractall(sys.argv[2], **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
except (tarfile.TarError, EOFError, OSError) as error:
    print(f"error: {sys.argv[1]} is no archive of tests/gpu/pack.sh, or damaged: {error}", file=sys.stderr)
    sys.exit(65)
END
kit=$work/ventris-gpu
if [[ ! -e $kit/kit.json ]]; then
  printf 'error: %s is no archive of tests/gpu/pack.sh: it has no ventris-gpu/kit.json\n' "$archive" >&2
  exit 65
fi
status=0
python3 -B "$kit/source/tests/gpu/lease.py" --kit "$kit" --work "$work/stages" --spent "$SECONDS" "$@" || status=$?
exit $status
