# SPDX-License-Identifier: Apache-2.0
# Options that every target of the project compiles with.

add_library(ventris_options INTERFACE)
target_include_directories(ventris_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_features(ventris_options INTERFACE cxx_std_20)
# Multiplications and additions are fused where the source says so, not where a compiler likes to: the bits are
# the same whichever compiles, and for whichever processor. -fno-math-errno and -fno-trapping-math allow vector
# code and change no result.
target_compile_options(ventris_options INTERFACE -Wall -Wextra -fopenmp-simd -ffp-contract=off -fno-math-errno
                                                 -fno-trapping-math)
# Options of what takes no time but that of its compilation.
set(VENTRIS_COLD_OPTIONS $<$<CONFIG:Release>:-O1>)
# g++ sees a fault in a class with a member of an unnamed namespace's type if it does not stand in the source itself.
if(VENTRIS_GROUPS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ventris_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
# GCC 12 sees overlapping copies in std::string's operator+ (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ventris_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
# clang warns of what `#pragma omp simd` stands before and it does not make vector code of itself: loops of f64 with calls of our
# exp, loops of a fixed length that it unrolls first.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(ventris_options INTERFACE -Wno-pass-failed)
endif()
# The kernels of a set name it by VENTRIS_MARCH (cmake/instruction_sets.cmake).
if(VENTRIS_BASE_MARCH)
  set(march $<TARGET_PROPERTY:VENTRIS_MARCH>)
  target_compile_options(ventris_options INTERFACE -march=$<IF:$<BOOL:${march}>,${march},${VENTRIS_BASE_MARCH}>)
endif()
if(VENTRIS_BASE_MARCH STREQUAL "native" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  target_compile_options(ventris_options INTERFACE -mprefer-vector-width=512)
endif()
if(NOT VENTRIS_PORTABLE)
  target_compile_definitions(ventris_options INTERFACE "VENTRIS_ONE_KERNEL_SET=\"${VENTRIS_KERNEL_SETS}\"")
endif()
if(VENTRIS_SANITIZE)
  target_compile_options(ventris_options INTERFACE -fsanitize=${VENTRIS_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(ventris_options INTERFACE -fsanitize=${VENTRIS_SANITIZE})
  if(VENTRIS_SANITIZE MATCHES "undefined")
    # The check of vptr opens a pipe to read memory, and takes its failure for a wrong object: the process that reads an HDF5 file
    # may open no more descriptors (data/io/hdf5_child.cc).
    target_compile_options(ventris_options INTERFACE -fno-sanitize-recover=all -fno-sanitize=vptr)
  endif()
endif()

if(VENTRIS_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "VENTRIS_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang")
  endif()
  target_compile_options(ventris_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# ventris_library(NAME LINKS... [PRIVATE LINKS...] [ROOMS FOLDERS...] [COLD SOURCES...] [ALONE SOURCES...]): the static library of one
# folder, from the sources in it and in its rooms. Headers of what is linked privately cannot be included outside the folder. COLD
# are sources that take no time but that of their compilation, ALONE those that are in no group (cmake/source_groups.cmake).
function(ventris_library name)
  cmake_parse_arguments(PARSE_ARGV 1 library "" "" "ROOMS;COLD;ALONE")
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(room IN LISTS library_ROOMS)
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  foreach(kind COLD ALONE)
    list(TRANSFORM library_${kind} REPLACE "^([^/].*)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
  endforeach()
  set(cold ${sources})
  list(REMOVE_ITEM sources ${library_COLD} ${library_ALONE})
  list(REMOVE_ITEM cold ${sources} ${library_ALONE})
  ventris_groups(sources ${name} ${sources})
  ventris_groups(cold ${name}_cold ${cold})
  set_source_files_properties(${cold} PROPERTIES COMPILE_OPTIONS "${VENTRIS_COLD_OPTIONS}")
  add_library(ventris_${name} STATIC ${sources} ${cold} ${library_ALONE})
  add_library(ventris::${name} ALIAS ventris_${name})
  target_link_libraries(ventris_${name} PUBLIC ventris_options ${library_UNPARSED_ARGUMENTS})
endfunction()
