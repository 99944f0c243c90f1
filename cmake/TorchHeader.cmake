# Precompiled headers of the torch sources (12 s a file without them; torch/torch.h would make one of 727 MB and
# 8 s a file). g++ instantiates again in every file what a header left pending: 0.9 s for ATen's, 1.9 s once
# torch::nn::Module is there. So there are two: operators are called as at::, modules derive from torch::nn::Module.
# Most users of the first are the groups, which speak to c10d (0.5 s a file less with it, 0.3 s more for others).
function(lockstep_torch_header name)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "// carries the shared precompiled header\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PUBLIC lockstep_libtorch Threads::Threads)
  target_compile_options(${name} PRIVATE ${LOCKSTEP_WARNINGS} -Winvalid-pch)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()
lockstep_torch_header(lockstep_tensor_pch <ATen/ATen.h> <torch/csrc/distributed/c10d/Backend.hpp>
                      <torch/csrc/distributed/c10d/Store.hpp>)
lockstep_torch_header(lockstep_module_pch <ATen/ATen.h> <torch/nn/module.h>)

# Which of the two a folder takes: that of modules from `model` on, where they are defined, for all that include
# such a folder.
function(lockstep_torch_header_of folder allowed out)
  set(header tensor)
  if(folder STREQUAL "model")
    set(header module)
  endif()
  foreach(other IN LISTS allowed)
    lockstep_target_name(${other} target)
    get_target_property(theirs ${target} LOCKSTEP_TORCH_HEADER)
    if(theirs STREQUAL "module")
      set(header module)
    endif()
  endforeach()
  set(${out} ${header} PARENT_SCOPE)
endfunction()
