# lockstep_c10d, the backend for torch.distributed, as an extension of one CPython: `make python-backend`
# builds it for the Python with torch that tools/setup.sh --oracles makes. torch's own headers bring
# pybind11; the Python's development headers are its own. Nothing else needs Python.
set(LOCKSTEP_PYTHON "${deps}/oracle-venv/bin/python" CACHE FILEPATH "The Python that lockstep_c10d is built for")

# Nothing but the module's entry is visible: other extensions may hold other builds of this library.
function(lockstep_python_backend include suffix)
  file(WRITE ${CMAKE_BINARY_DIR}/lockstep_c10d.map "{ global: PyInit__C; local: *; };\n")
  add_library(lockstep_c10d MODULE EXCLUDE_FROM_ALL python/lockstep_c10d/module.cpp)
  set_target_properties(lockstep_c10d PROPERTIES PREFIX "" OUTPUT_NAME _C SUFFIX ${suffix}
      CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/lockstep_c10d)
  target_include_directories(lockstep_c10d PRIVATE ${CMAKE_SOURCE_DIR})
  # As a system folder: its headers do not compile without warnings.
  target_include_directories(lockstep_c10d SYSTEM PRIVATE ${include})
  target_compile_definitions(lockstep_c10d PRIVATE USE_DISTRIBUTED USE_C10D_GLOO)
  target_compile_options(lockstep_c10d PRIVATE ${LOCKSTEP_WARNINGS}
      "SHELL:-idirafter ${LOCKSTEP_LIBTORCH}/include"
      "SHELL:-idirafter ${LOCKSTEP_LIBTORCH}/include/torch/csrc/api/include")
  # The libraries by file and without their search path: torch is loaded already, from where it is.
  foreach(folder comm store comm_shm comm_records topology config memory base)
    list(APPEND archives $<TARGET_FILE:lockstep_${folder}>)
    add_dependencies(lockstep_c10d lockstep_${folder})
  endforeach()
  target_link_libraries(lockstep_c10d PRIVATE -Wl,--start-group ${archives} -Wl,--end-group
      ${LOCKSTEP_TORCH_LIBS} ${LOCKSTEP_LIBTORCH}/lib/libtorch.so ${LOCKSTEP_LIBTORCH}/lib/libtorch_python.so
      Threads::Threads nlohmann_json::nlohmann_json OpenSSL::Crypto)
  set_target_properties(lockstep_c10d PROPERTIES BUILD_RPATH "" SKIP_BUILD_RPATH ON)
  target_link_options(lockstep_c10d PRIVATE -Wl,--version-script=${CMAKE_BINARY_DIR}/lockstep_c10d.map
      -Wl,--allow-shlib-undefined -Wl,--as-needed -Wl,--gc-sections)
endfunction()

if(LOCKSTEP_TORCH AND NOT LOCKSTEP_CUDA AND EXISTS ${LOCKSTEP_PYTHON})
  execute_process(COMMAND ${LOCKSTEP_PYTHON} -c
      "import sysconfig as s; print(s.get_path('include') + ';' + s.get_config_var('EXT_SUFFIX'), end='')"
      OUTPUT_VARIABLE python_facts RESULT_VARIABLE status)
  if(status EQUAL 0)
    list(GET python_facts 0 python_include)
    list(GET python_facts 1 python_suffix)
    if(EXISTS ${python_include}/Python.h)
      lockstep_python_backend(${python_include} ${python_suffix})
    endif()
  endif()
endif()
