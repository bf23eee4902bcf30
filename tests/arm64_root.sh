#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the arm64 Debian packages that the project needs into a folder, for cmake/aarch64-linux-gnu.cmake and QEMU.
# Usage: tests/arm64_root.sh FOLDER
# Nothing is installed: some of the packages (HDF5, SentencePiece, Open MPI) would replace those of this machine. The release is
# that of this machine, on which arm64 must be enabled:
#   dpkg --add-architecture arm64 && apt-get update
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/setup.sh
source "$root/launch/setup.sh"

if (($# != 1)) || [[ $1 == --* ]]; then
  sed -n '3,7s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 64
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
packages=("libc6-dev" "libstdc++-12-dev" "libomp-14-dev")  # the last for clang
for package in "${VENTRIS_BUILD_PACKAGES[@]}" "${VENTRIS_TEST_PACKAGES[@]}"; do
  case $package in
    *-dev | openmpi-bin) packages+=("$package") ;;  # programs are those of this machine
  esac
done

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
touch "$state/status"
mkdir -p "$state/archives/partial"
note "Fetching packages"
# To apt it is an arm64 machine on which nothing is installed yet.
apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status="$state/status" \
  -o Dir::Cache::archives="$state/archives" -o APT::Sandbox::User=root -o Debug::NoLocking=1 \
  --no-install-recommends --download-only install "${packages[@]}" >"$state/log" ||
  { tail -n 20 "$state/log" >&2 && die "apt-get found no arm64 packages; first: dpkg --add-architecture arm64 && apt-get update"; }
note "Unpacking $(find "$state/archives" -name '*.deb' | wc -l) packages into $folder"
find "$state/archives" -name '*.deb' -exec dpkg-deb -x {} "$folder" \;
# A link to /lib would lead out of the folder.
find "$folder" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
  ln -sfnr "$folder$target" "$link"
done
note "Next: VENTRIS_SYSROOT=$folder cmake --preset aarch64"
