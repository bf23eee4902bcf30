#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs programs, tests, golden files and a corpus for a machine with a GPU and little else (lease.sh).
# Usage: tests/gpu/pack.sh OUT.tar.xz [options]
#   --build FOLDER      with the program built for GPUs, its tests and benchmarks; default: build/release, or else build/cuda
#   --multi30k FOLDER   text for launch/recipes/multi30k.sh; default: ../shared/data/multi30k/tok, if it is there
#   --corpus FILE       corpus.h5 of 'ventris prepare'; default: one that corpus.py makes, of the size of WMT's
#   --ventris, --tests, --products-bench PROGRAM   in the place of those of the build
# OUT.tar is not compressed. Shared libraries are packed with the programs, Open MPI with its plug-ins, but neither the C library nor those of CUDA,
# which lease.sh finds on the machine. XZ_OPT: options of xz.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
most=$((60 << 20))

fail() {
  printf 'error: %s\n' "$2" >&2
  exit "$1"
}

if (($# < 1)) || [[ $1 == --* ]]; then
  sed -n '3,10s/^# \?//p' "${BASH_SOURCE[0]}" >&2
  exit 64
fi
out=$1
shift
[[ $out == *.tar || $out == *.tar.xz ]] || fail 64 "$out: the archive is a .tar.xz or a .tar"
build=$root/build/release
[[ -x $build/tests/emulation/cuda_tests ]] || build=$root/build/cuda
declare -A given=()
while (($# > 0)); do
  case $1 in
    --build | --multi30k | --corpus | --ventris | --tests | --products-bench)
      (($# > 1)) || fail 64 "$1 needs a value"
      given[${1#--}]=$2
      shift 2
      ;;
    *) fail 64 "there is no option $1" ;;
  esac
done
build=${given[build]:-$build}
text=${given[multi30k]:-$root/../shared/data/multi30k/tok}
[[ -z ${given[multi30k]:-} || -d $text ]] || fail 66 "there is no folder $text"
[[ -z ${given[corpus]:-} || -r ${given[corpus]} ]] || fail 66 "there is no file ${given[corpus]}"

# program OPTION PATH: the program given by the option, or that of the build.
program() {
  local path=${given[$1]:-$build/$2}
  [[ -x $path ]] || fail 66 "there is no program $path; build it where nvcc, cuBLASLt and NCCL are installed, with: tests/run.sh --build"
  printf '%s' "$path"
}
ventris=$(program ventris ventris)
tests=$(program tests tests/emulation/cuda_tests)
products_bench=$(program products-bench tests/bench/products_bench)
if [[ $("$ventris" --version) =~ CUDA:\ +no$'\n' ]]; then fail 66 "$ventris was built without CUDA; install nvcc, cuBLASLt and NCCL and build it again"; fi
python=python3
"$python" -c 'import h5py, numpy' 2>/dev/null || python=/usr/bin/python3
"$python" -c 'import h5py, numpy' 2>/dev/null || fail 69 "python3 lacks h5py or numpy; install them with: apt-get install python3-h5py python3-numpy"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kit=$work/ventris-gpu
mkdir -p "$kit"/{bin,programs,libs,openmpi,corpus,source}

# Libraries that belong to the machine: the C library, and all of CUDA.
of_c_library='^(libc|libm|libdl|librt|libpthread|libresolv|libutil|libnss_.*|ld-linux.*)[.]so'
of_cuda='^lib(cuda|cudart|cublas|cublasLt|nccl|nvrtc.*|nvidia-.*|nvJitLink)[.]so'

# needed FILE...: names and paths of the libraries that the files load, each once.
needed() {
  local missing
  missing=$(ldd "$@" 2>/dev/null | awk '/not found/ {print $1}' | grep -vE "$of_cuda" | sort -u || true)
  [[ -z $missing ]] || fail 66 "not found, but needed by the programs: $missing"
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u
}

# copy_libraries FILE...: all that they need and that the machine may lack.
copy_libraries() {
  needed "$@" | while read -r name path; do
    if [[ ! $name =~ $of_c_library && ! $name =~ $of_cuda && ! -e $kit/libs/$name ]]; then cp -L "$path" "$kit/libs/$name"; fi
  done
}

# wrap NAME PROGRAM [LINE...]: bin/NAME, which starts the program with the libraries of the kit and of the machine, after the lines.
wrap() {
  local name=$1
  cp -L "$2" "$kit/programs/$name"
  copy_libraries "$kit/programs/$name"
  {
    cat <<'END'
#!/bin/sh
kit=$(dirname "$(dirname "$(readlink -f "$0")")")
cuda=$(cat "$kit/cuda_path" 2>/dev/null)
LD_LIBRARY_PATH=$kit/libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}${cuda:+:$cuda}
VENTRIS_SOURCE_DIR=$kit/source
export LD_LIBRARY_PATH VENTRIS_SOURCE_DIR
END
    printf '%s\n' "${@:3}"
    # shellcheck disable=SC2016
    printf 'exec "$kit/programs/%s" "$@"\n' "$name"
  } >"$kit/bin/$name"
  chmod +x "$kit/bin/$name"
}
wrap ventris "$ventris"
wrap cuda_tests "$tests"
wrap products_bench "$products_bench"

# Open MPI looks for its plug-ins and messages below OPAL_PREFIX, as Debian lays them out below /usr. For one host: without the
# plug-ins for networks, whose libraries are large, and for launching elsewhere.
if [[ $(ldd "$ventris") == *libmpi.so* ]]; then
  mpirun=$(command -v mpirun) || fail 66 "there is no mpirun, but $ventris needs MPI"
  plugins=$(ompi_info --path pkglibdir --parsable | sed 's/^path:pkglibdir://')
  folder=$kit/openmpi${plugins#/usr}
  mkdir -p "$folder" "$kit/openmpi/share"
  cp -L "$plugins"/*.so "$folder"
  rm -f "$folder"/mca_{btl_openib,btl_ofi,btl_usnic,mtl_*,pml_ucx,osc_ucx,spml_*,atomic_*,memheap_*,scoll_*,sshmem_*,plm_slurm,ras_slurm,pmix_flux}.so
  cp -rL /usr/share/openmpi "$kit/openmpi/share"
  copy_libraries "$folder"/*.so
  # shellcheck disable=SC2016
  wrap mpirun "$mpirun" 'export OPAL_PREFIX="$kit/openmpi" PMIX_INSTALL_PREFIX="$kit/openmpi" PMIX_MCA_pcompress_base_silence_warning=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1' \
    'export OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_oob_tcp_if_include=lo'
else
  printf '#!/bin/sh\necho "error: the program was built without MPI" >&2\nexit 69\n' >"$kit/bin/mpirun"
  chmod +x "$kit/bin/mpirun"
fi

# The scripts and files that the tests and stages read.
(cd "$root" && tar -cf - --exclude=__pycache__ tests/gpu tests/bench/{table,kernel_bill_step,kernel_bill_measured,peer_pytorch,peer_packed}.py \
  tests/golden/*.golden launch/recipes/multi30k.sh launch/setup.sh launch/supervise.sh) | tar -xf - -C "$kit/source"

corpus=()
if [[ -n ${given[corpus]:-} ]]; then
  cp "${given[corpus]}" "$kit/corpus/corpus.h5"
  corpus+=(--corpus "$kit/corpus/corpus.h5")
fi
"$python" -B "$root/tests/gpu/corpus.py" --ventris "$ventris" --output "$kit/corpus" "${corpus[@]}"
if [[ -d $text ]]; then
  mkdir "$kit/multi30k"
  cp "$text"/{train,val,test_2016_flickr}.lc.norm.tok.{en,de}* "$kit/multi30k"
fi

# What the machine must have.
"$python" - "$kit" "$of_cuda" "$of_c_library" <<'END'
import json
import os
import re
import subprocess
import sys

kit, of_cuda, of_c_library = sys.argv[1:]
# Those that the program opens by name when a device is first used.
told = subprocess.run([os.path.join(kit, "bin", "ventris"), "--version"], capture_output=True, text=True, check=True).stdout
cuda = re.search(r"^CUDA: *yes, CUDA (\d+)[.]\d+, architectures", told, re.MULTILINE)
opened = [f"libcublasLt.so.{cuda[1]}", "libnccl.so.2"] if cuda else []
packed = os.listdir(os.path.join(kit, "libs"))
libraries, versions, missing = {}, [(2, 0)], set()
for folder, _, names in (found for place in ("programs", "libs", "openmpi") for found in sorted(os.walk(os.path.join(kit, place)))):
    for name in sorted(name for name in names if ".so" in name or not folder.startswith(os.path.join(kit, "openmpi"))):
        told = subprocess.run(["readelf", "-dVW", os.path.join(folder, name)], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", told))
        missing |= {library for library in needed - set(packed) if not re.match(of_cuda, library) and not re.match(of_c_library, library)}
        for library in {*filter(re.compile(of_cuda).match, needed), *(opened if name == "ventris" else [])}:
            libraries.setdefault(library, []).append(name)
        versions += [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", told)]
if missing:
    sys.exit(f"error: needed by what is packed, but not packed: {', '.join(sorted(missing))}")
facts = {"cuda_libraries": libraries, "glibc": "glibc " + ".".join(map(str, max(versions)))}
with open(os.path.join(kit, "kit.json"), "w", encoding="utf-8") as file:
    json.dump(facts, file, indent=1)
print(f"needed on the machine: {facts['glibc']}, {', '.join(libraries) or 'no library of CUDA'}")
END

strip --strip-debug "$kit"/programs/* "$kit"/libs/*
# A dictionary that spans the programs, which hold the same kernels, and the two copies of the ids.
export XZ_OPT=${XZ_OPT:--9}
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -caf "$out" ventris-gpu
size=$(stat -c %s "$out")
printf '%s: %d MiB\n' "$out" $((size >> 20))
if [[ $out == *.tar.xz ]] && ((size > most)); then fail 73 "$out has more than $((most >> 20)) MiB; a smaller corpus (--corpus) makes it smaller"; fi
