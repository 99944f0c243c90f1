# One test program per folder from its *_test.cpp, and one per folder of tests/. A folder that links
# LibTorch gets the shared precompiled header; its ranks are processes started from the same binary.
find_package(GTest REQUIRED)
include(GoogleTest)

function(lockstep_test target torch libs)
  add_executable(${target} ${ARGN})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${libs} GTest::gtest GTest::gmock)
  target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS})
  # Test bodies run once: optimising them buys nothing. (LibTorch's tests share a precompiled
  # header, which fixes their flags.)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<NOT:$<STREQUAL:${torch},T>>>:-O0>)
  target_compile_definitions(${target} PRIVATE $<$<NOT:$<STREQUAL:${torch},T>>:
      LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LOCKSTEP_BINARY_DIR="${CMAKE_BINARY_DIR}">)
  if(torch STREQUAL "T")
    lockstep_torch_settings(${target})
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/torch_test_main.cpp
                   ${CMAKE_SOURCE_DIR}/tests/support/rank_processes.cpp)
    target_link_libraries(${target} PRIVATE lockstep_comm lockstep_store)
  else()
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
  endif()
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTIES TIMEOUT 300)
endfunction()

foreach(folder IN LISTS LOCKSTEP_FOLDERS)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lockstep/${folder}/*_test.cpp)
  if(tests)
    lockstep_target_name(${folder} target)
    lockstep_test(${target}_test "${LOCKSTEP_IS_TORCH_${folder}}" ${target} ${tests})
  endif()
endforeach()

# tests/<family>/: what crosses folders. "T" families drive ranks in process; golden and fault drive the
# programs, so they are built only where both programs are. Other sources of a family are its helpers.
function(lockstep_family family torch libs)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${family}/*.cpp)
  if(tests)
    lockstep_test(${family}_test ${torch} "${libs}" ${tests} ${ARGN})
  endif()
endfunction()

if(NOT CMAKE_BUILD_TYPE STREQUAL "Sanitize")  # these tests read texts: nothing to sanitize
  lockstep_family(architecture - lockstep_base)
endif()
if(LOCKSTEP_TORCH AND TARGET lockstep AND TARGET lockstep-worker)
  foreach(family golden fault)
    lockstep_family(${family} - lockstep_cli ${CMAKE_SOURCE_DIR}/tests/support/run_program.cpp)
    if(TARGET ${family}_test)
      add_dependencies(${family}_test lockstep lockstep-worker)
    endif()
  endforeach()
  lockstep_family(parity T lockstep_worker)
  # A project of its own against an installed tree, as a user would write it.
  add_test(NAME Package.AnotherProjectFindsTheInstalledLibraryAndTrainsOnTwoRanks
           COMMAND ${CMAKE_SOURCE_DIR}/tests/package/cpp_api.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  set_tests_properties(Package.AnotherProjectFindsTheInstalledLibraryAndTrainsOnTwoRanks
                       PROPERTIES TIMEOUT 300)
endif()

# tests/oracles/<name>_main.cpp: small programs that the Python tests there drive.
add_custom_target(oracle_programs)
file(GLOB mains CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/oracles/*_main.cpp)
foreach(main IN LISTS mains)
  get_filename_component(name ${main} NAME_WE)
  string(REGEX REPLACE "_main$" "" name ${name})
  add_executable(${name} ${main})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE lockstep_core)
  target_compile_options(${name} PRIVATE ${LOCKSTEP_WARNINGS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/oracles)
  add_dependencies(oracle_programs ${name})
endforeach()
if(TARGET parity_test)  # tests/oracles/parity_test.py gives it PyTorch's numbers of a full model
  add_dependencies(oracle_programs parity_test)
endif()
