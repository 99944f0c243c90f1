# Makes one static library per line of docs/layers.txt: lockstep_<folder>, from lockstep/<folder>/*.cpp
# without *_test.cpp and *_fuzz.cpp. A target links exactly the folders its line allows.
set(LOCKSTEP_WARNINGS "" CACHE STRING "Extra warning flags; the presets set them")

function(lockstep_target_name folder out)
  string(REPLACE "/" "_" name ${folder})
  set(${out} lockstep_${name} PARENT_SCOPE)
endfunction()

# A target that links LibTorch; `pch` is whose precompiled header it uses (cmake/TorchHeader.cmake).
function(lockstep_torch_settings target pch)
  target_link_libraries(${target} PUBLIC lockstep_libtorch)
  # -fPIC in programs too (CMake gives them -fPIE): the precompiled header was made with it.
  target_compile_options(${target} PRIVATE -Winvalid-pch -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# What the sources without LibTorch include most, compiled once. Preset fuzz goes without: there each source
# shows that it includes what it uses.
option(LOCKSTEP_FREE_HEADER "Precompile the headers of the folders without LibTorch" ON)
if(LOCKSTEP_FREE_HEADER)
  file(WRITE ${CMAKE_BINARY_DIR}/free_pch.cpp "// carries the shared precompiled header\n")
  add_library(lockstep_free_pch OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/free_pch.cpp)
  target_compile_options(lockstep_free_pch PRIVATE ${LOCKSTEP_WARNINGS} -Winvalid-pch)
  target_precompile_headers(lockstep_free_pch PRIVATE <algorithm> <array> <chrono> <cmath> <filesystem>
      <fstream> <functional> <map> <memory> <nlohmann/json.hpp> <optional> <set> <span> <sstream> <string>
      <string_view> <system_error> <thread> <vector>)
endif()

# Folders where no time is spent when a job runs: a quarter less to compile. (parser.cpp 6.1 -> 4.8 s)
set(LOCKSTEP_COLD_FOLDERS topology config store model/stats comm/bench parallel/plan parallel/cost planner
    engine/values checkpoint/names checkpoint/tools metrics rundir rendezvous launch starters doctor cli)

function(lockstep_free_settings target)
  if(LOCKSTEP_FREE_HEADER)
    target_compile_options(${target} PRIVATE -Winvalid-pch)
    target_precompile_headers(${target} REUSE_FROM lockstep_free_pch)
  endif()
endfunction()

function(lockstep_folder folder torch allowed)
  lockstep_target_name(${folder} target)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lockstep/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cpp$|/main\\.cpp$")
  if(LOCKSTEP_CUDA)
    list(FILTER sources EXCLUDE REGEX "/without_nccl\\.cpp$")
  else()  # these include CUDA's headers
    list(FILTER sources EXCLUDE REGEX "/nccl_[a-z_]+\\.cpp$")
  endif()
  if(sources)
    set(scope PUBLIC)
    add_library(${target} STATIC ${sources})
    target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS})
    if(folder IN_LIST LOCKSTEP_COLD_FOLDERS)
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    if(torch STREQUAL "T")
      lockstep_torch_header_of(${folder} "${allowed}" header)
      lockstep_torch_settings(${target} lockstep_${header}_pch)
      set_target_properties(${target} PROPERTIES LOCKSTEP_TORCH_HEADER ${header})
    else()
      lockstep_free_settings(${target})
    endif()
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
    if(torch STREQUAL "T")
      target_link_libraries(${target} INTERFACE lockstep_libtorch)
    endif()
  endif()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:include>)
  foreach(other IN LISTS allowed)
    lockstep_target_name(${other} other_target)
    target_link_libraries(${target} ${scope} ${other_target})
  endforeach()
  string(REPLACE "/" "_" key ${folder})
  if(LOCKSTEP_LIBS_${key})
    target_link_libraries(${target} PRIVATE ${LOCKSTEP_LIBS_${key}})
  endif()
endfunction()

function(lockstep_layers table)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  file(STRINGS ${table} lines REGEX "^[a-z]")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "[ \t]+" ";" words "${line}")
    list(POP_FRONT words folder torch)
    list(REMOVE_ITEM words "")
    if(torch STREQUAL "T" AND NOT LOCKSTEP_TORCH)
      continue()
    endif()
    lockstep_folder(${folder} ${torch} "${words}")
    lockstep_target_name(${folder} target)
    list(APPEND folders ${folder})
    if(torch STREQUAL "T")
      list(APPEND torch_targets ${target})
    else()
      list(APPEND free_targets ${target})
    endif()
    set(LOCKSTEP_IS_TORCH_${folder} ${torch} PARENT_SCOPE)
  endforeach()
  set(LOCKSTEP_FOLDERS ${folders} PARENT_SCOPE)
  set(LOCKSTEP_FREE_TARGETS ${free_targets} PARENT_SCOPE)
  set(LOCKSTEP_TORCH_TARGETS ${torch_targets} PARENT_SCOPE)
endfunction()

# The update kernel fixes its own rounding: no fused multiply-add, and a sqrt that can be vectorised.
set_source_files_properties(${CMAKE_SOURCE_DIR}/lockstep/optim/update_kernel.cpp PROPERTIES
    COMPILE_OPTIONS "-O3;-funroll-loops;-ffp-contract=off;-fno-math-errno;-fno-trapping-math"
    SKIP_PRECOMPILE_HEADERS ON)
# One file of reduction kernels an instruction set; which one runs is decided at run time.
foreach(isa portable avx2 avx512)
  set(flags "-O3;-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    if(isa STREQUAL "avx2")
      list(APPEND flags -mavx2 -mf16c)
    elseif(isa STREQUAL "avx512")
      list(APPEND flags -mavx512f -mavx512bw -mavx512vl -mf16c -mprefer-vector-width=512)
    endif()
  endif()
  set_source_files_properties(${CMAKE_SOURCE_DIR}/lockstep/comm/shm/reduce_kernel_${isa}.cpp
      PROPERTIES COMPILE_OPTIONS "${flags}" SKIP_PRECOMPILE_HEADERS ON)
endforeach()
# Statistics of checkpoints read as fast as disks give.
set_source_files_properties(${CMAKE_SOURCE_DIR}/lockstep/checkpoint/tools/stats_kernel.cpp
    ${CMAKE_SOURCE_DIR}/lockstep/checkpoint/tools/elements.cpp PROPERTIES
    COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
# The model's vector loops fix their rounding as the reduction kernels do.
set_source_files_properties(${CMAKE_SOURCE_DIR}/lockstep/model/vector_kernel.cpp
    ${CMAKE_SOURCE_DIR}/lockstep/model/norm_kernel.cpp
    ${CMAKE_SOURCE_DIR}/lockstep/model/draw_kernel.cpp PROPERTIES
    COMPILE_OPTIONS "-O3;-ffp-contract=off;-fno-math-errno;-fno-trapping-math"
    SKIP_PRECOMPILE_HEADERS ON)
