# SPDX-License-Identifier: Apache-2.0
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
ventris_find(nlohmann_json nlohmann-json3-dev)
ventris_find(ZLIB zlib1g-dev)
ventris_find(LibLZMA liblzma-dev)
ventris_find(ICU libicu-dev COMPONENTS uc)
ventris_find(yaml-cpp libyaml-cpp-dev)
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
# Debian's shared HDF5 loads libcurl, OpenSSL, Kerberos, LDAP and more, 28 libraries, for files on the network, which nothing here
# opens: half the time of a short command, and code that has no place in the process that reads files of others. The static one takes
# what it is asked for; where it is missing or needs more than compression, the shared one serves.
if(HDF5_C_LIBRARIES) # empty if the compiler links it by itself
  list(GET HDF5_C_LIBRARIES 0 hdf5_library)
  cmake_path(GET hdf5_library PARENT_PATH hdf5_folder)
  find_library(VENTRIS_HDF5_STATIC NAMES libhdf5_serial.a libhdf5.a PATHS ${hdf5_folder} NO_DEFAULT_PATH)
endif()
find_library(VENTRIS_SZIP sz)
mark_as_advanced(VENTRIS_HDF5_STATIC VENTRIS_SZIP)
if(VENTRIS_HDF5_STATIC AND VENTRIS_SZIP)
  set(VENTRIS_HDF5_STATIC_LIBRARIES ${VENTRIS_HDF5_STATIC} ${VENTRIS_SZIP} ZLIB::ZLIB m ${CMAKE_DL_LIBS})
  include(CheckCSourceCompiles)
  block()
    set(CMAKE_REQUIRED_INCLUDES ${HDF5_C_INCLUDE_DIRS})
    set(CMAKE_REQUIRED_LIBRARIES ${VENTRIS_HDF5_STATIC_LIBRARIES})
    check_c_source_compiles("#include <hdf5.h>
                             int main(void) { return H5Fcreate(\"\", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT) < 0; }"
                            VENTRIS_HDF5_STATIC_LINKS)
  endblock()
endif()
if(NOT TARGET ventris_hdf5)
  add_library(ventris_hdf5 INTERFACE)
  target_include_directories(ventris_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  if(VENTRIS_HDF5_STATIC_LINKS)
    target_link_libraries(ventris_hdf5 INTERFACE ${VENTRIS_HDF5_STATIC_LIBRARIES})
  else()
    target_link_libraries(ventris_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
  endif()
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

pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
if(NOT ZSTD_FOUND)
  ventris_missing(zstd libzstd-dev)
endif()

pkg_check_modules(ZIP QUIET IMPORTED_TARGET libzip)
if(NOT ZIP_FOUND)
  ventris_missing(libzip libzip-dev)
endif()

if(VENTRIS_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  if(NOT CMAKE_CROSSCOMPILING)
    set(MPI_DETERMINE_LIBRARY_VERSION ON) # for cmake/summary.cmake
  endif()
  find_package(MPI QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    message(FATAL_ERROR "MPI was not found. Install it with: apt-get install libopenmpi-dev openmpi-bin; "
                        "or build a one-process program with -DVENTRIS_MPI=OFF")
  endif()
endif()

if(VENTRIS_TESTS)
  ventris_find(GTest libgtest-dev)
endif()
