# SPDX-License-Identifier: Apache-2.0
# The sets of instructions that the CPU's kernels (backend/cpu) are compiled for.
#
# VENTRIS_PORTABLE: once for each set of VENTRIS_KERNEL_SETS, of which the program takes the best that its processor has
# (backend/device/instruction_set.h); everything else is for x86-64-v3. Else there is one set, VENTRIS_KERNEL_SETS: "native" for the
# processor of this machine, or "neon" for aarch64 in general.

set(VENTRIS_PORTABLE OFF)
set(VENTRIS_KERNEL_SETS native)
set(VENTRIS_BASE_MARCH native)

set(VENTRIS_KERNEL_FLAGS_avx2 -march=x86-64-v3)
# g++ copies 16 bytes at a time if it is not told more, and a load of a whole vector waits for two of them. With AVX-512 it was
# measured to make no difference.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
  list(APPEND VENTRIS_KERNEL_FLAGS_avx2 -mmove-max=256 -mstore-max=256)
endif()
set(VENTRIS_KERNEL_FLAGS_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
set(VENTRIS_KERNEL_FLAGS_avx512-bf16 ${VENTRIS_KERNEL_FLAGS_avx512} -mavx512vnni -mavx512bf16)
# What this set has beyond avx512 the compiler uses only where a source asks for it by this macro: the other sources are taken as
# they are compiled for avx512.
set(VENTRIS_KERNEL_BASE_avx512-bf16 avx512)
set(VENTRIS_KERNEL_MACRO_avx512-bf16 __AVX512BF16__)

# Sets `missing` to what the compiler, the linker or objcopy cannot do of what several sets need, else to "".
function(ventris_look_for_tools missing)
  set(folder ${PROJECT_BINARY_DIR}/CMakeFiles/kernel_sets)
  file(MAKE_DIRECTORY ${folder})
  file(WRITE ${folder}/trial.cc "inline int shared() { static int count = 0; return ++count; }\nextern \"C\" { int kept() { return shared(); } }\n")
  set(${missing} "" PARENT_SCOPE)
  foreach(set avx2 avx512 avx512-bf16)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${VENTRIS_KERNEL_FLAGS_${set}} -c trial.cc -o ${set}.o WORKING_DIRECTORY ${folder}
                    RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
    if(result)
      set(${missing} "the compiler knows no ${VENTRIS_KERNEL_FLAGS_${set}}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  # That of clang is LLVM's, which cannot; what is joined any linker takes.
  find_program(VENTRIS_JOINER NAMES ld.bfd ld DOC "A linker that has -r --force-group-allocation: GNU's")
  execute_process(COMMAND ${VENTRIS_JOINER} -r --force-group-allocation -o joined.o avx2.o WORKING_DIRECTORY ${folder}
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(result)
    set(${missing} "GNU's ld (package binutils) was not found or has no --force-group-allocation" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=kept joined.o alone.o WORKING_DIRECTORY ${folder}
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(result)
    set(${missing} "objcopy was not found or has no --keep-global-symbol" PARENT_SCOPE)
  endif()
endfunction()

if(VENTRIS_NATIVE OR VENTRIS_SANITIZE OR VENTRIS_FUZZ)
  # For this machine.
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(VENTRIS_KERNEL_SETS neon)
  set(VENTRIS_BASE_MARCH "")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  ventris_look_for_tools(missing)
  if(missing)
    message(STATUS "For this machine's processor alone, as with VENTRIS_NATIVE=ON: ${missing}")
  else()
    set(VENTRIS_PORTABLE ON)
    set(VENTRIS_KERNEL_SETS avx2 avx512 avx512-bf16)
    set(VENTRIS_BASE_MARCH x86-64-v3)
  endif()
endif()

# Sets `result` to those of SOURCES that ask for a macro, and the table of kernels, which is another for each set. It is an error if
# a header of backend/ asks for it, since it is not known who includes it.
function(ventris_sources_with result macro)
  set(found "")
  foreach(source ${ARGN})
    file(STRINGS ${source} lines REGEX "${macro}|VENTRIS_KERNEL_TABLE")
    if(lines)
      list(APPEND found ${source})
    endif()
  endforeach()
  file(GLOB headers ${PROJECT_SOURCE_DIR}/backend/*/*.h)
  foreach(header ${headers})
    file(STRINGS ${header} lines REGEX "${macro}")
    if(lines)
      message(FATAL_ERROR "${header} asks for ${macro}: only sources may (cmake/instruction_sets.cmake)")
    endif()
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN} ${headers})
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# ventris_kernels(TARGET SOURCES...): adds the kernels' sources to a library. Those of several sets are joined to one object for
# each, which exports its table of kernels alone: inline functions of headers are in it too, compiled for that set, and the linker
# may take any of equal name for the whole program. VENTRIS_KERNEL_OBJECTS is the list of these objects.
function(ventris_kernels target)
  if(NOT VENTRIS_PORTABLE)
    target_sources(${target} PRIVATE ${ARGN})
    set(VENTRIS_KERNEL_OBJECTS "" PARENT_SCOPE)
    return()
  endif()
  set(objects "")
  foreach(set ${VENTRIS_KERNEL_SETS})
    string(REPLACE "-" "_" name ${set})
    set(own ${ARGN})
    set(parts $<TARGET_OBJECTS:ventris_kernels_${name}>)
    set(base ${VENTRIS_KERNEL_BASE_${set}})
    if(base)
      ventris_sources_with(own ${VENTRIS_KERNEL_MACRO_${set}} ${ARGN})
      list(TRANSFORM own REPLACE "^.*/(.*)\\.cc$" "\\1" OUTPUT_VARIABLE stems)
      list(JOIN stems "|" stems)
      list(APPEND parts "$<FILTER:$<TARGET_OBJECTS:ventris_kernels_${base}>,EXCLUDE,/(${stems})[.]cc>")
    endif()
    add_library(ventris_kernels_${name} OBJECT ${own})
    set(flags ${VENTRIS_KERNEL_FLAGS_${set}})
    list(POP_FRONT flags march)
    string(REPLACE "-march=" "" march ${march})
    set_target_properties(ventris_kernels_${name} PROPERTIES VENTRIS_MARCH ${march})
    target_compile_options(ventris_kernels_${name} PRIVATE ${flags})
    target_compile_definitions(ventris_kernels_${name} PRIVATE VENTRIS_KERNEL_TABLE=ventris_kernels_${name})
    target_link_libraries(ventris_kernels_${name} PRIVATE ventris_options fmt::fmt)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/kernels_${name}.o)
    add_custom_command(
        OUTPUT ${object}
        COMMAND ${VENTRIS_JOINER} -r --force-group-allocation -o ${object}.all ${parts}
        COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=ventris_kernels_${name} ${object}.all ${object}
        COMMAND ${CMAKE_COMMAND} -E rm ${object}.all
        DEPENDS ventris_kernels_${name} ${parts}
        COMMENT "Joining the kernels of ${set}" COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(${target} PRIVATE ${objects})
  set(VENTRIS_KERNEL_OBJECTS ${objects} PARENT_SCOPE)
endfunction()
