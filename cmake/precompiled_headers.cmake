# Headers of the standard library and fmt that most sources include, precompiled for g++ (docs/decisions.md). A compiler cache does
# not keep what is compiled with them; other compilers and sanitizers are not used often enough to have them. Headers that few
# sources include, as nlohmann-json, are not among them: g++ takes longer for every source that has them. Tests have their
# own, with GoogleTest (tests/CMakeLists.txt).
set(VENTRIS_PRECOMPILED_HEADERS <algorithm> <cmath> <filesystem> <functional> <memory> <optional> <span> <string> <vector> <fmt/core.h>)
set(VENTRIS_PRECOMPILE OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT VENTRIS_SANITIZE)
  set(VENTRIS_PRECOMPILE ON)
endif()

# Options of what takes no time but that of its compilation.
set(VENTRIS_COLD_OPTIONS $<$<CONFIG:Release>:-O1>)

# g++ needs the options with which the headers were compiled, else it refuses them or fails. So there are several: "plain" for
# targets with ventris_options alone, "cold" for those with VENTRIS_COLD_OPTIONS too, "openmp" for those that link OpenMP.
function(ventris_precompile kind)
  set(source ${PROJECT_BINARY_DIR}/generated/no_code.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(ventris_headers_${kind} OBJECT ${source})
  target_link_libraries(ventris_headers_${kind} PRIVATE ventris_options fmt::fmt)
  target_compile_options(ventris_headers_${kind} PRIVATE ${ARGN})
  target_precompile_headers(ventris_headers_${kind} PRIVATE ${VENTRIS_PRECOMPILED_HEADERS})
endfunction()
if(VENTRIS_PRECOMPILE)
  ventris_precompile(plain)
  ventris_precompile(cold ${VENTRIS_COLD_OPTIONS})
  ventris_precompile(openmp ${OpenMP_CXX_FLAGS})
endif()

# ventris_precompiled_headers(KIND TARGETS...): has all sources of the targets include them.
function(ventris_precompiled_headers kind)
  if(VENTRIS_PRECOMPILE)
    foreach(target ${ARGN})
      target_precompile_headers(${target} REUSE_FROM ventris_headers_${kind})
    endforeach()
  endif()
endfunction()

# ventris_cold_sources(SOURCES...): sources of the folder that take no time but that of their compilation.
function(ventris_cold_sources)
  set(options ${VENTRIS_COLD_OPTIONS})
  if(VENTRIS_PRECOMPILE)
    # As target_precompile_headers does for whole targets.
    set(header ${PROJECT_BINARY_DIR}/CMakeFiles/ventris_headers_cold.dir/cmake_pch.hxx)
    list(APPEND options -Winvalid-pch -include ${header})
    set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON OBJECT_DEPENDS ${header}.gch)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()
