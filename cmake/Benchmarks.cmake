# Programs that only measure; `make bench-...` builds them.
add_executable(death_notice EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/benchmarks/death_notice.cpp)
target_link_libraries(death_notice PRIVATE lockstep_comm_shm)
target_compile_options(death_notice PRIVATE ${LOCKSTEP_WARNINGS})
if(LOCKSTEP_TORCH)
  add_executable(gloo_compare EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/benchmarks/gloo_compare.cpp)
  target_link_libraries(gloo_compare PRIVATE lockstep_comm lockstep_comm_bench lockstep_libtorch)
  target_compile_options(gloo_compare PRIVATE ${LOCKSTEP_WARNINGS})
endif()
