# SPDX-License-Identifier: Apache-2.0
# Programs with a CUDA side other than that of the ordinary program, which may have none: those of tests/emulation. Compiled for them
# is what asks for CUDA (backend/device/has_cuda.h), and NCCL's side of comm; all else is the objects of the ordinary program.

# ventris_cuda_side(PREFIX SOURCES... [NCCL SOURCES...]): the libraries PREFIX_backend, with SOURCES for the kernels, and
# PREFIX_comm, with the sources of NCCL's added where there is MPI.
function(ventris_cuda_side prefix)
  cmake_parse_arguments(PARSE_ARGV 1 side "" "" NCCL)
  add_library(${prefix}_backend STATIC ${VENTRIS_CUDA_SOURCES} ${side_UNPARSED_ARGUMENTS} ${VENTRIS_HOST_OBJECTS})
  # It makes the kernels' objects.
  add_dependencies(${prefix}_backend ventris_backend)
  target_compile_definitions(${prefix}_backend PRIVATE VENTRIS_HAS_CUDA=1)
  target_link_libraries(${prefix}_backend PUBLIC ventris_options fmt::fmt
                        PRIVATE Threads::Threads DNNL::dnnl OpenMP::OpenMP_CXX)

  set(comm $<TARGET_OBJECTS:ventris_comm>)
  if(VENTRIS_MPI)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/comm/nccl/*.cc)
    list(FILTER sources EXCLUDE REGEX "/nccl_library\\.cc$")
    list(APPEND sources ${side_NCCL})
    set(comm "$<FILTER:${comm},EXCLUDE,/(no_)?nccl/>" ${sources})
  endif()
  add_library(${prefix}_comm STATIC ${comm})
  set_target_properties(${prefix}_comm PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${prefix}_comm PUBLIC ${prefix}_backend PRIVATE Threads::Threads)
  if(VENTRIS_MPI)
    target_link_libraries(${prefix}_comm PRIVATE MPI::MPI_CXX)
  endif()
endfunction()

# ventris_cuda_side_program(NAME PREFIX SOURCES FOLDERS...): a program of these sources and folders, with the libraries of PREFIX.
function(ventris_cuda_side_program name prefix sources)
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  foreach(folder ${ARGN})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:ventris_${folder}>)
  endforeach()
  target_link_libraries(${name} PRIVATE ${prefix}_comm ${prefix}_backend Threads::Threads ventris_hdf5
                        PkgConfig::SENTENCEPIECE ${SENTENCEPIECE_TRAIN_LIBRARY} PkgConfig::XXHASH ZLIB::ZLIB LibLZMA::LibLZMA PkgConfig::ZSTD PkgConfig::ZIP ICU::uc
                        nlohmann_json::nlohmann_json yaml-cpp Boost::program_options ${CMAKE_DL_LIBS})
endfunction()
