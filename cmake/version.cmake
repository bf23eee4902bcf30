# SPDX-License-Identifier: Apache-2.0
# The commit that is built, for --version and the provenance of files. Looked up in every build, since commits come
# without a new configuration; the header changes only if the commit does. Run as a script with SOURCE_DIR and HEADER.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  find_package(Git QUIET)
  set(commit "unknown")
  if(GIT_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE_DIR}
                    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
    if(result EQUAL 0 AND described)
      set(commit "${described}")
    endif()
  endif()
  file(CONFIGURE OUTPUT ${HEADER} CONTENT "#pragma once\n#define VENTRIS_COMMIT \"@commit@\"\n" @ONLY)
  return()
endif()

set(VENTRIS_COMMIT_HEADER ${PROJECT_BINARY_DIR}/generated/ventris_commit.h)
add_custom_target(ventris_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DHEADER=${VENTRIS_COMMIT_HEADER} -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${VENTRIS_COMMIT_HEADER} COMMENT "Looking up the commit" VERBATIM)
