# One test program per folder from its *_test.cpp, and one per folder of tests/. In a folder
# that links LibTorch ranks are processes started from the same binary.
find_package(GTest REQUIRED)
include(GoogleTest)

# Tests have precompiled headers of their own, with GoogleTest in them, and are not optimised: their bodies
# run once. Flags and definitions of such a header must be those of its users. (2.1 -> 1.2 s a file without
# LibTorch, 5.6 -> 4.2 s with.)
function(lockstep_test_header name)
  cmake_parse_arguments(arg "" "" "LINK;HEADERS" ${ARGN})
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "// carries a precompiled header\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PUBLIC ${arg_LINK} GTest::gtest)
  target_compile_options(${name} PRIVATE ${LOCKSTEP_WARNINGS} -Winvalid-pch -fPIC $<$<CONFIG:Release>:-O0>)
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS} <gtest/gtest.h>)
endfunction()

lockstep_test_header(lockstep_test_pch HEADERS <gmock/gmock.h> <filesystem> <fstream> <sstream> <vector>)
target_compile_definitions(lockstep_test_pch PRIVATE
    LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LOCKSTEP_BINARY_DIR="${CMAKE_BINARY_DIR}")
if(LOCKSTEP_TORCH)
  lockstep_test_header(lockstep_tensor_test_pch LINK lockstep_libtorch Threads::Threads HEADERS <ATen/ATen.h>)
  lockstep_test_header(lockstep_module_test_pch LINK lockstep_libtorch Threads::Threads
                       HEADERS <ATen/ATen.h> <torch/nn/module.h>)
  # main() and the ranks of tests that link LibTorch.
  add_library(lockstep_torch_test_support STATIC EXCLUDE_FROM_ALL
              ${CMAKE_SOURCE_DIR}/tests/support/torch_test_main.cpp ${CMAKE_SOURCE_DIR}/tests/support/rank_processes.cpp)
  target_include_directories(lockstep_torch_test_support PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(lockstep_torch_test_support PUBLIC lockstep_comm lockstep_store GTest::gtest GTest::gmock)
  target_compile_options(lockstep_torch_test_support PRIVATE ${LOCKSTEP_WARNINGS} $<$<CONFIG:Release>:-O0>)
  lockstep_torch_settings(lockstep_torch_test_support lockstep_tensor_test_pch)
endif()

function(lockstep_test_program target torch libs)
  add_executable(${target} ${ARGN})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${libs} GTest::gtest GTest::gmock)
  if(torch STREQUAL "T")
    target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS} $<$<CONFIG:Release>:-O0>)
    get_target_property(header ${libs} LOCKSTEP_TORCH_HEADER)
    lockstep_torch_settings(${target} lockstep_${header}_test_pch)
    target_link_libraries(${target} PRIVATE lockstep_torch_test_support)
  else()
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
    lockstep_free_test_settings(${target})
  endif()
endfunction()

function(lockstep_free_test_settings target)
  target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS} $<$<CONFIG:Release>:-O0> -Winvalid-pch -fPIC)
  target_compile_definitions(${target} PRIVATE
      LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LOCKSTEP_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_precompile_headers(${target} REUSE_FROM lockstep_test_pch)
endfunction()

function(lockstep_test target torch libs)
  lockstep_test_program(${target} ${torch} "${libs}" ${ARGN})
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTIES TIMEOUT 300)
endfunction()

# These run millions of events, or regular expressions over every source.
file(GLOB simulations CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lockstep/rendezvous/simulat*_test.cpp
     ${CMAKE_SOURCE_DIR}/tests/architecture/*.cpp)
set_source_files_properties(${simulations} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "-O2")

# What preset tsan builds: tests of folders that start threads or share words between processes. In the others
# there is nothing that TSan could see.
add_custom_target(threaded_tests)
function(lockstep_note_threads folder target)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lockstep/${folder}/*.cpp
       ${CMAKE_SOURCE_DIR}/lockstep/${folder}/*.h)
  foreach(source IN LISTS sources)
    file(STRINGS ${source} threads LIMIT_COUNT 1
         REGEX "std::(jthread|thread|atomic|atomic_ref|mutex|async|condition_variable|future)|__atomic_")
    if(threads)
      add_dependencies(threaded_tests ${target})
      return()
    endif()
  endforeach()
endfunction()

foreach(folder IN LISTS LOCKSTEP_FOLDERS)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lockstep/${folder}/*_test.cpp)
  if(LOCKSTEP_CUDA)
    list(FILTER tests EXCLUDE REGEX "/without_nccl_test\\.cpp$")
  else()
    list(FILTER tests EXCLUDE REGEX "/nccl_[a-z_]+\\.cpp$")
  endif()
  if(tests)
    lockstep_target_name(${folder} target)
    lockstep_test(${target}_test "${LOCKSTEP_IS_TORCH_${folder}}" ${target} ${tests})
    lockstep_note_threads(${folder} ${target}_test)
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

if(NOT CMAKE_BUILD_TYPE STREQUAL "Sanitize")
  lockstep_family(architecture - lockstep_base)  # reads texts: nothing to sanitize
  lockstep_family(validation - lockstep_planner)  # fits numbers for minutes with code that planner's tests run
endif()
if(LOCKSTEP_TORCH AND TARGET lockstep AND TARGET lockstep-worker)
  add_library(lockstep_program_test_support OBJECT ${CMAKE_SOURCE_DIR}/tests/support/run_program.cpp
              ${CMAKE_SOURCE_DIR}/tests/support/network_namespaces.cpp ${CMAKE_SOURCE_DIR}/tests/support/network_pair.cpp
              ${CMAKE_SOURCE_DIR}/tests/support/network_switch.cpp ${CMAKE_SOURCE_DIR}/tests/support/packet_relay.cpp)
  target_include_directories(lockstep_program_test_support PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(lockstep_program_test_support PRIVATE lockstep_cli GTest::gtest)
  lockstep_free_test_settings(lockstep_program_test_support)
  foreach(family golden fault)
    lockstep_family(${family} - lockstep_cli $<TARGET_OBJECTS:lockstep_program_test_support>)
    if(TARGET ${family}_test)
      add_dependencies(${family}_test lockstep lockstep-worker)
    endif()
  endforeach()
  # Put in front of the C library by LD_PRELOAD: a disk that fails or is slow.
  add_library(disk_faults MODULE ${CMAKE_SOURCE_DIR}/tests/support/disk_faults.cpp)
  set_target_properties(disk_faults PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  target_compile_options(disk_faults PRIVATE ${LOCKSTEP_WARNINGS})
  target_link_libraries(disk_faults PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(fault_test disk_faults)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/fault/checkpoint_disk_test.cpp PROPERTIES COMPILE_DEFINITIONS
      "LOCKSTEP_DISK_FAULTS=\"${CMAKE_BINARY_DIR}/bin/libdisk_faults.so\"")
  lockstep_family(parity T lockstep_worker)
  # A project of its own against an installed tree, as a user would write it.
  add_test(NAME Package.AnotherProjectFindsTheInstalledLibraryAndTrainsOnTwoRanks
           COMMAND ${CMAKE_SOURCE_DIR}/tests/package/cpp_api.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  set_tests_properties(Package.AnotherProjectFindsTheInstalledLibraryAndTrainsOnTwoRanks
                       PROPERTIES TIMEOUT 300)
endif()
if(TARGET lockstep-portable)
  add_test(NAME Package.TheProgramRunsAloneFromAWheelAndADebianPackage
           COMMAND ${CMAKE_SOURCE_DIR}/tests/package/installed_program.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  set_tests_properties(Package.TheProgramRunsAloneFromAWheelAndADebianPackage PROPERTIES TIMEOUT 300)
endif()

# tests/gpu: what only a GPU can show, in builds with CUDA. tools/gpu_check.sh runs them; label gpu needs one GPU,
# gpu2 two.
if(LOCKSTEP_TORCH AND LOCKSTEP_CUDA)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/gpu/*.cpp)
  lockstep_test_program(gpu_test T lockstep_comm ${tests})
  foreach(suites gpu=OneGpu gpu2=TwoGpus)
    string(REPLACE "=" ";" suites ${suites})
    list(GET suites 0 label)
    list(GET suites 1 prefix)
    gtest_discover_tests(gpu_test TEST_FILTER ${prefix}* DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                         PROPERTIES TIMEOUT 120 RUN_SERIAL TRUE LABELS ${label})
  endforeach()
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
