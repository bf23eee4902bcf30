# Finds what the project needs. Each missing dependency gets one line that names the Debian package.

function(ventris_missing what package)
  message(FATAL_ERROR "${what} was not found. Install it with: apt-get install ${package}")
endfunction()

macro(ventris_find name package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    ventris_missing(${name} ${package})
  endif()
endmacro()

ventris_find(PkgConfig pkg-config)
ventris_find(Threads libc6-dev)
ventris_find(OpenMP g++)
ventris_find(fmt libfmt-dev)
ventris_find(spdlog libspdlog-dev)
ventris_find(nlohmann_json nlohmann-json3-dev)
ventris_find(ZLIB zlib1g-dev)
# Not find_package(dnnl): Debian's configuration of it demands the OpenCL headers, which a program for
# CPUs does not need.
find_library(DNNL_LIBRARY dnnl)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
if(NOT DNNL_LIBRARY OR NOT DNNL_INCLUDE_DIR)
  ventris_missing(oneDNN libdnnl-dev)
endif()
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
ventris_find(Boost libboost-program-options-dev COMPONENTS program_options)

enable_language(C)
set(HDF5_PREFER_PARALLEL OFF)
ventris_find(HDF5 libhdf5-dev COMPONENTS C)
if(NOT TARGET ventris_hdf5)
  add_library(ventris_hdf5 INTERFACE)
  target_include_directories(ventris_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(ventris_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
endif()

pkg_check_modules(SENTENCEPIECE QUIET IMPORTED_TARGET sentencepiece)
if(NOT SENTENCEPIECE_FOUND)
  ventris_missing(SentencePiece libsentencepiece-dev)
endif()
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
if(NOT SENTENCEPIECE_TRAIN_LIBRARY)
  ventris_missing("The SentencePiece training library" libsentencepiece-dev)
endif()

pkg_check_modules(XXHASH QUIET IMPORTED_TARGET libxxhash)
if(NOT XXHASH_FOUND)
  ventris_missing(xxHash libxxhash-dev)
endif()

if(VENTRIS_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    message(FATAL_ERROR "MPI was not found. Install it with: apt-get install libopenmpi-dev openmpi-bin; "
                        "or build a one-process program with -DVENTRIS_MPI=OFF")
  endif()
endif()

# The CUDA kernels (backend/*_cuda.cu) are compiled where VENTRIS_CUDA is ON. The program does not use them yet:
# --device cuda says so. Their tests run on the CPU (tests/emulation).
if(VENTRIS_CUDA)
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    ventris_missing("The CUDA toolkit (VENTRIS_CUDA=ON)" nvidia-cuda-toolkit)
  endif()
endif()

if(VENTRIS_TESTS)
  ventris_find(GTest libgtest-dev)
endif()
if(VENTRIS_BENCHMARKS)
  ventris_find(benchmark libbenchmark-dev)
endif()
