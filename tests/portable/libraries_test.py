# SPDX-License-Identifier: Apache-2.0
"""The program loads no library that it has no use for: HDF5 is linked statically, without its drivers for files on the network
(cmake/dependencies.cmake), and libraries of CUDA are opened when a device is used (backend/device/shared_library.h). Ends with 1 and the names of
those that it asks for all the same."""

import argparse
import re
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readelf", required=True)
    parser.add_argument("program")
    parser.add_argument("--without", nargs="+", required=True, help="names of libraries, without versions")
    arguments = parser.parse_args()
    section = subprocess.run([arguments.readelf, "-d", arguments.program], check=True, stdout=subprocess.PIPE, text=True).stdout
    loaded = re.findall(r"\(NEEDED\).*\[([^]]+?)\.so\b", section)
    if "libc" not in loaded:
        sys.exit(f"{arguments.program} asks for no libc but for {loaded}: the test sees nothing")
    wrong = sorted(set(loaded) & set(arguments.without))
    print(f"{len(loaded)} libraries are asked for; not wanted: {', '.join(wrong) or 'none'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
