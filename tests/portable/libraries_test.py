"""The program loads no library that it has no use for: HDF5 is linked statically, without its drivers for files on the network
(cmake/dependencies.cmake). Ends with 1 and the names of the libraries that it loads all the same."""

import argparse
import re
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--without", nargs="+", required=True, help="names of libraries, without versions")
    arguments = parser.parse_args()
    loaded = re.findall(r"^\s+(\S+)\.so\b", subprocess.run(["ldd", arguments.program], check=True, stdout=subprocess.PIPE, text=True).stdout, re.M)
    if "libc" not in loaded:
        sys.exit(f"ldd names no libc among {loaded}: the test sees nothing")
    wrong = sorted(set(loaded) & set(arguments.without))
    print(f"{len(loaded)} libraries are loaded; not wanted: {', '.join(wrong) or 'none'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
