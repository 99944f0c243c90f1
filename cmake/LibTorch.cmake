# LibTorch from the PyPI wheel as one imported target. find_package(Torch) demands nvcc and fails
# with C++20 under CMake 3.25, so the two libraries are named here. -idirafter: the wheel's include
# folder carries copies of fmt, protobuf and pybind11 that must not shadow Debian's.
if(NOT EXISTS ${LOCKSTEP_LIBTORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch at ${LOCKSTEP_LIBTORCH}; run tools/setup.sh or set LOCKSTEP_LIBTORCH")
endif()
add_library(lockstep_libtorch INTERFACE)
set(LOCKSTEP_TORCH_LIBS ${LOCKSTEP_LIBTORCH}/lib/libtorch_cpu.so ${LOCKSTEP_LIBTORCH}/lib/libc10.so)
target_link_libraries(lockstep_libtorch INTERFACE ${LOCKSTEP_TORCH_LIBS})
target_compile_options(lockstep_libtorch INTERFACE
    "SHELL:-idirafter ${LOCKSTEP_LIBTORCH}/include"
    "SHELL:-idirafter ${LOCKSTEP_LIBTORCH}/include/torch/csrc/api/include")
target_compile_definitions(lockstep_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_options(lockstep_libtorch INTERFACE
    -Wl,-rpath,${LOCKSTEP_LIBTORCH}/lib -Wl,-rpath-link,${LOCKSTEP_LIBTORCH}/lib
    -Wl,--allow-shlib-undefined -Wl,--as-needed)

# One precompiled header for every torch source (12 s a file without it, 4 s with; torch/torch.h would make
# it 727 MB and 8 s): operators are called as at::, modules derive from torch::nn::Module.
file(WRITE ${CMAKE_BINARY_DIR}/torch_pch.cpp "// carries the shared precompiled header\n")
add_library(lockstep_torch_pch OBJECT ${CMAKE_BINARY_DIR}/torch_pch.cpp)
target_link_libraries(lockstep_torch_pch PUBLIC lockstep_libtorch Threads::Threads)
target_compile_options(lockstep_torch_pch PRIVATE ${LOCKSTEP_WARNINGS} -Winvalid-pch)
target_precompile_headers(lockstep_torch_pch PRIVATE <ATen/ATen.h> <torch/nn/module.h>)
