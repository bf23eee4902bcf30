#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the source without running it. Usage: tests/lint.sh [--if-there] [--all] [CHECK...]
#   format     clang-format 14, all C++ and CUDA files         shell   shellcheck
#   python     ruff, with the rules of ruff.toml               sources includes, sizes of files (tests/cli/sources_test.py)
#   docs       links, paths (tests/cli/docs_test.py), formulas and names of docs/paper.md (tests/cli/paper_test.py)
#   tidy       clang-tidy 14, with the checks of .clang-tidy: changed files
#   pages      syntax of launch/pages/*.js; skipped where there is no node
#   budget     sizes beside their budgets, printed and not judged
#   registers  registers, spills and shared memory of the built kernels, compared with tests/lint/registers.txt
# Default: all checks; registers only if kernels were built. Missing tools are installed.
#   --if-there  nothing is installed: a check whose tool is missing is skipped and reported
#   --all       tidy checks all files, without a time limit
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/setup.sh
source "$root/launch/setup.sh"
cd "$root"

# build_with_kernels: the folder of the newest build that has kernels for GPUs, if there is one.
build_with_kernels() {
  local newest
  newest=$(find build/release -path '*/ventris_cuda_kernels.dir/*.ptxas' -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1)
  newest=${newest#* }
  printf '%s' "${newest%%/backend/*}"
}

ruff_version=0.17.6
if_there=false
tidy_options=()
checks=()
for argument in "$@"; do
  case $argument in
    --if-there) if_there=true ;;
    --all) tidy_options+=(--all) ;;
    --help) sed -n '3,13s/^# //p' "${BASH_SOURCE[0]}" && exit 0 ;;
    format | shell | python | sources | tidy | pages | docs | budget | registers) checks+=("$argument") ;;
    *) die "no check is named $argument; there are: format shell python sources tidy pages docs budget registers" ;;
  esac
done
if ((${#checks[@]} == 0)); then
  checks=(format shell python sources tidy pages docs budget)
  if [[ -n $(build_with_kernels) ]]; then checks+=(registers); fi
fi

# files PATTERN...: the matching files of the tree, including new ones that are not in git yet; in an unpacked archive, all.
files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard --deduplicate -- "$@" | while read -r file; do
      if [[ -f $file ]]; then printf '%s\n' "$file"; fi
    done
  else
    local names=() pattern
    for pattern in "$@"; do names+=(-o -path "./$pattern"); done
    find . -path ./build -prune -o -type f \( "${names[@]:1}" \) -print | sed 's,^\./,,'
  fi
}

# tool_is_there CHECK PROGRAM: false if the check is skipped.
tool_is_there() {
  if command -v "$2" >/dev/null; then return 0; fi
  if $if_there; then
    echo "$1: skipped, there is no $2"
    return 1
  fi
  die "$1: there is no $2; install it with: apt-get install ${VENTRIS_LINT_PACKAGES[*]}"
}

# version_is CHECK PROGRAM VERSION: the same. Other versions format differently and have other checks.
version_is() {
  local found
  found=$("$2" --version | grep -oE 'version [0-9]+' | head -n 1)
  if [[ $found == "version $3" ]]; then return 0; fi
  if $if_there; then
    echo "$1: skipped, $2 is $found and not $3"
    return 1
  fi
  die "$1: $2 is $found; version $3 is needed, as in Debian 12"
}

check_format() {
  tool_is_there format clang-format && version_is format clang-format 14 || return 0
  files '*.cc' '*.h' '*.cu' '*.cuh' | xargs -r -n 40 -P "$(cores)" clang-format --dry-run --Werror
}

# shell_scripts: by their names or by their first lines.
shell_scripts() {
  local file first
  files '*' | while read -r file; do
    first=
    IFS= read -r -n 80 first <"$file" || true
    if [[ $file == *.sh || $file == *.sbatch || $first =~ ^'#!'.*[/\ ](ba|da)?sh(\ |$) ]]; then printf '%s\n' "$file"; fi
  done
}

check_shell() {
  tool_is_there shell shellcheck || return 0
  shell_scripts | xargs -r shellcheck --external-sources --format gcc
}

check_python() {
  local ruff=build/lint/bin/ruff
  if [[ $(ruff --version 2>/dev/null) == "ruff $ruff_version" ]]; then
    ruff=ruff
  elif [[ $("$ruff" --version 2>/dev/null) != "ruff $ruff_version" ]]; then
    if $if_there; then
      echo "python: skipped, there is no ruff $ruff_version"
      return 0
    fi
    if ! python3 -m venv build/lint || ! build/lint/bin/pip install --quiet --disable-pip-version-check "ruff==$ruff_version"; then
      die "python: pip could not install ruff $ruff_version"
    fi
  fi
  "$ruff" check --quiet --no-cache --output-format concise .
}

check_tidy() {
  tool_is_there tidy clang-tidy && version_is tidy clang-tidy 14 || return 0
  if ! $if_there; then install_packages "${VENTRIS_BUILD_PACKAGES[@]}" "${VENTRIS_TEST_PACKAGES[@]}"; fi
  # The compile commands of single sources, and the one header that the build generates.
  if ! { cmake --preset release -B build/tidy -DVENTRIS_CUDA=OFF -DVENTRIS_TESTS=ON -DVENTRIS_GROUPS=OFF && cmake --build build/tidy --target ventris_commit; } \
    >build/lint.log 2>&1; then
    cat build/lint.log
    return 1
  fi
  python3 -B tests/lint/tidy.py --jobs "$(cores)" "${tidy_options[@]}"
}

check_pages() {
  if ! command -v node >/dev/null; then
    echo "pages: skipped, there is no node"
    return 0
  fi
  files 'launch/pages/*.js' | xargs -r -n 1 node --check
}

check_sources() {
  VENTRIS_SOURCE_DIR=$root python3 -B tests/cli/sources_test.py
}

check_docs() {
  VENTRIS_SOURCE_DIR=$root python3 -B tests/cli/docs_test.py
  # numpy may be that of the system alone.
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import numpy' 2>/dev/null; then
      VENTRIS_SOURCE_DIR=$root "$python" -B tests/cli/paper_test.py
      return
    fi
  done
  if ! $if_there; then die "docs: python3 has no numpy; install it with: apt-get install ${VENTRIS_LINT_PACKAGES[*]}"; fi
  echo "docs: tests/cli/paper_test.py skipped, python3 has no numpy"
}

check_budget() {
  python3 -B tests/lint/budget.py
}

check_registers() {
  local build
  build=$(build_with_kernels)
  if [[ -z $build ]]; then
    if ! $if_there; then die "registers: no kernels were built; build them with: tests/run.sh --build, which needs nvcc"; fi
    echo "registers: skipped, no kernels were built"
    return 0
  fi
  python3 -B tests/lint/registers.py "$build"
}

if ! $if_there && [[ ${checks[*]} != registers ]]; then install_packages "${VENTRIS_LINT_PACKAGES[@]}"; fi
mkdir -p build
failed=()
for check in "${checks[@]}"; do
  note "Lint: $check"
  begin=$SECONDS
  # In a subshell, with set -e in force.
  set +e
  (set -e; "check_$check")
  status=$?
  set -e
  if ((status != 0)); then failed+=("$check"); fi
  echo "$check: $((SECONDS - begin)) s"
done
if ((${#failed[@]} != 0)); then die "lint: fix the errors above: ${failed[*]}"; fi
