# SPDX-License-Identifier: Apache-2.0
# Toolchain file: the program for 64-bit ARM, compiled on another machine. VENTRIS_SYSROOT, in the environment or by -D, is a
# folder with what is needed of an arm64 system (tests/arm64_root.sh makes one). Tests run by QEMU.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VENTRIS_SYSROOT)
if(NOT VENTRIS_SYSROOT)
  set(VENTRIS_SYSROOT $ENV{VENTRIS_SYSROOT})
endif()
if(NOT IS_DIRECTORY "${VENTRIS_SYSROOT}/usr/lib/aarch64-linux-gnu")
  message(FATAL_ERROR "VENTRIS_SYSROOT=${VENTRIS_SYSROOT}: not a folder with an arm64 system. Make one with: tests/arm64_root.sh FOLDER")
endif()
get_filename_component(VENTRIS_SYSROOT "${VENTRIS_SYSROOT}" ABSOLUTE)
set(VENTRIS_SYSROOT "${VENTRIS_SYSROOT}" CACHE PATH "Folder with an arm64 system")
set(CMAKE_SYSROOT ${VENTRIS_SYSROOT})

# clang is one program for all processors.
if(NOT CMAKE_CXX_COMPILER)
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
  set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
endif()
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

# FindMPI and FindHDF5 would ask the compilers of this machine, mpicxx and h5cc.
set(MPI_CXX_COMPILER_INCLUDE_DIRS ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/openmpi/include CACHE STRING "")
set(MPI_CXX_LIB_NAMES mpi CACHE STRING "")
set(MPI_mpi_LIBRARY ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/openmpi/lib/libmpi.so CACHE FILEPATH "")
set(HDF5_C_COMPILER_EXECUTABLE false CACHE FILEPATH "")

find_program(VENTRIS_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(VENTRIS_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${VENTRIS_QEMU} -L ${CMAKE_SYSROOT})
endif()
