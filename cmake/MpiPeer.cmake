# bin/lockstep-mpi-peer: what `lockstep bench comm --against mpi` compares with. Only where Open MPI's
# mpicc is (tools/setup.sh --mpi installs it); nothing else of lockstep needs MPI.
find_program(LOCKSTEP_MPICC mpicc)
if(LOCKSTEP_MPICC)
  set(peer ${CMAKE_BINARY_DIR}/bin/lockstep-mpi-peer)
  set(source ${CMAKE_SOURCE_DIR}/benchmarks/peers/mpi_allreduce.c)
  add_custom_command(OUTPUT ${peer}
                     COMMAND ${LOCKSTEP_MPICC} -O2 -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra ${source} -o ${peer}
                     DEPENDS ${source} COMMENT "Building bin/lockstep-mpi-peer" VERBATIM)
  add_custom_target(lockstep-mpi-peer ALL DEPENDS ${peer})
endif()
