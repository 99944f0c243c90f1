# One precompiled header for every torch source (12 s a file without it, 4 s with; torch/torch.h would make
# it 727 MB and 8 s): operators are called as at::, modules derive from torch::nn::Module.
file(WRITE ${CMAKE_BINARY_DIR}/torch_pch.cpp "// carries the shared precompiled header\n")
add_library(lockstep_torch_pch OBJECT ${CMAKE_BINARY_DIR}/torch_pch.cpp)
target_link_libraries(lockstep_torch_pch PUBLIC lockstep_libtorch Threads::Threads)
target_compile_options(lockstep_torch_pch PRIVATE ${LOCKSTEP_WARNINGS} -Winvalid-pch)
target_precompile_headers(lockstep_torch_pch PRIVATE <ATen/ATen.h> <torch/nn/module.h>)
