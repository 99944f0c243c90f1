# LibTorch from the PyPI wheel as one imported target, lockstep_libtorch; included by this build and by
# the installed lockstepConfig.cmake, with LOCKSTEP_LIBTORCH and LOCKSTEP_CUDA set. find_package(Torch) demands nvcc and
# fails with C++20 under CMake 3.25, so the two libraries are named here. -idirafter: the wheel's include
# folder carries copies of fmt, protobuf and pybind11 that must not shadow Debian's.
if(NOT EXISTS ${LOCKSTEP_LIBTORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch at ${LOCKSTEP_LIBTORCH}; run tools/setup.sh or set LOCKSTEP_LIBTORCH")
endif()
add_library(lockstep_libtorch INTERFACE IMPORTED GLOBAL)
set(LOCKSTEP_TORCH_LIBS ${LOCKSTEP_LIBTORCH}/lib/libtorch_cpu.so ${LOCKSTEP_LIBTORCH}/lib/libc10.so)
target_link_libraries(lockstep_libtorch INTERFACE ${LOCKSTEP_TORCH_LIBS})
target_compile_options(lockstep_libtorch INTERFACE
    "SHELL:-idirafter ${LOCKSTEP_LIBTORCH}/include"
    "SHELL:-idirafter ${LOCKSTEP_LIBTORCH}/include/torch/csrc/api/include")
target_compile_definitions(lockstep_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_options(lockstep_libtorch INTERFACE
    -Wl,-rpath,${LOCKSTEP_LIBTORCH}/lib -Wl,-rpath-link,${LOCKSTEP_LIBTORCH}/lib
    -Wl,--allow-shlib-undefined -Wl,--as-needed)

# NVIDIA's wheels lie beside torch/, where libtorch_cuda.so looks for its libraries. All users of this target
# share one set of definitions: precompiled headers are made with them.
if(LOCKSTEP_CUDA)
  get_filename_component(nvidia ${LOCKSTEP_LIBTORCH} DIRECTORY)
  string(APPEND nvidia /nvidia)
  if(NOT EXISTS ${nvidia}/nccl/lib/libnccl.so.2)
    message(FATAL_ERROR "no CUDA libraries at ${nvidia}; run tools/setup.sh --cuda")
  endif()
  target_link_libraries(lockstep_libtorch INTERFACE
      ${LOCKSTEP_LIBTORCH}/lib/libtorch_cuda.so ${LOCKSTEP_LIBTORCH}/lib/libc10_cuda.so
      ${nvidia}/nccl/lib/libnccl.so.2 ${nvidia}/cu13/lib/libcudart.so.13)
  target_compile_options(lockstep_libtorch INTERFACE
      "SHELL:-idirafter ${nvidia}/cu13/include" "SHELL:-idirafter ${nvidia}/nccl/include")
  target_compile_definitions(lockstep_libtorch INTERFACE USE_C10D_NCCL)
  target_link_options(lockstep_libtorch INTERFACE
      -Wl,-rpath,${nvidia}/nccl/lib -Wl,-rpath,${nvidia}/cu13/lib)
endif()
