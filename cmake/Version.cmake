# What `lockstep --version` says: handed to one source file, so that a commit rebuilds nothing else.
find_package(Git QUIET)
set(LOCKSTEP_GIT unknown)
if(GIT_FOUND AND EXISTS ${CMAKE_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                  OUTPUT_VARIABLE LOCKSTEP_GIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.git/logs/HEAD)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/.git/logs/HEAD)
  endif()
endif()
set(LOCKSTEP_LIBTORCH_VERSION none)
if(LOCKSTEP_TORCH AND EXISTS ${LOCKSTEP_LIBTORCH}/version.py)
  file(STRINGS ${LOCKSTEP_LIBTORCH}/version.py line REGEX "^__version__ = ")
  string(REGEX REPLACE "^__version__ = '([^']*)'.*" "\\1" LOCKSTEP_LIBTORCH_VERSION "${line}")
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/lockstep/cli/version.cpp PROPERTIES COMPILE_DEFINITIONS
    "LOCKSTEP_VERSION=\"${PROJECT_VERSION}\";LOCKSTEP_GIT=\"${LOCKSTEP_GIT}\";LOCKSTEP_LIBTORCH_VERSION=\"${LOCKSTEP_LIBTORCH_VERSION}\"")
# What checkpoints say they were saved with.
set_source_files_properties(${CMAKE_SOURCE_DIR}/lockstep/worker/checkpoint_observer.cpp PROPERTIES COMPILE_DEFINITIONS
    "LOCKSTEP_VERSION=\"${PROJECT_VERSION}\"")
