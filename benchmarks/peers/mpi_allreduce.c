/* Open MPI's collectives, timed as `lockstep bench comm` times ours: the other side of --against mpi.
 *
 *   mpicc -O2 mpi_allreduce.c -o lockstep-mpi-peer
 *   mpirun --oversubscribe -np N ./lockstep-mpi-peer ROUND ITERATIONS WARMUP OP[,OP...] BYTES...
 *
 * OP: all_reduce, reduce_scatter, all_gather, broadcast, barrier. BYTES are of the full fp32 buffer.
 * Each sample is rank 0's time of one call that begins with a barrier. One JSON line an OP and size:
 * min, median and max of the samples, and the median of what the slowest rank took. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum op { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, BARRIER, OPS };
static const char* const kNames[OPS] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                        "barrier"};

struct run {
  int rank, ranks;
  int round, iterations, warmup;
};

static void refuse(const char* what) {
  fprintf(stderr, "lockstep-mpi-peer: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void* allocated(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) refuse("out of memory");
  return memory;
}

static float* ones(long count) {
  float* buffer = allocated(sizeof(float) * (size_t)(count > 0 ? count : 1));
  for (long i = 0; i < count; i++) buffer[i] = 1;
  return buffer;
}

static void call(enum op op, float* full, long full_count, float* part, long part_count) {
  switch (op) {
    case ALL_REDUCE:
      MPI_Allreduce(MPI_IN_PLACE, full, (int)full_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case REDUCE_SCATTER:
      MPI_Reduce_scatter_block(full, part, (int)part_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case ALL_GATHER:
      MPI_Allgather(part, (int)part_count, MPI_FLOAT, full, (int)part_count, MPI_FLOAT,
                    MPI_COMM_WORLD);
      break;
    case BROADCAST: MPI_Bcast(full, (int)full_count, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    default: MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void print_line(const struct run* run, enum op op, long bytes, double* times,
                       double* slowest) {
  const int n = run->iterations;
  qsort(times, (size_t)n, sizeof(double), ascending);
  qsort(slowest, (size_t)n, sizeof(double), ascending);
  printf("{\"side\":\"theirs\",\"op\":\"%s\",\"bytes\":%ld,\"round\":%d,"
         "\"time_us\":{\"min\":%.3f,\"median\":%.3f,\"max\":%.3f},\"slowest_us\":%.3f}\n",
         kNames[op], bytes, run->round, times[0] * 1e6, times[n / 2] * 1e6, times[n - 1] * 1e6,
         slowest[n / 2] * 1e6);
  fflush(stdout);
}

/* Rounded up to whole elements, as many for each rank where the buffer has parts. */
static void measure(const struct run* run, enum op op, long wanted_bytes) {
  const long elements = (wanted_bytes + 3) / 4;
  const int has_parts = op == REDUCE_SCATTER || op == ALL_GATHER;
  const long part_count = has_parts ? (elements + run->ranks - 1) / run->ranks : 0;
  const long full_count = has_parts ? part_count * run->ranks : elements;
  if (full_count > 2147483647L) refuse("MPI counts elements in 31 bits: use smaller sizes");
  float* full = ones(full_count);
  float* part = ones(part_count);
  double* times = allocated(sizeof(double) * (size_t)run->iterations);
  double* slowest = allocated(sizeof(double) * (size_t)run->iterations);
  for (int k = -run->warmup - 1; k < run->iterations; k++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    call(op, full, full_count, part, part_count);
    if (k >= 0) times[k] = MPI_Wtime() - start;
  }
  MPI_Reduce(times, slowest, run->iterations, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (run->rank == 0) print_line(run, op, 4 * full_count, times, slowest);
  free(slowest);
  free(times);
  free(part);
  free(full);
}

static enum op find_op(const char* name) {
  for (int op = 0; op < OPS; op++) {
    if (strcmp(name, kNames[op]) == 0) return (enum op)op;
  }
  refuse("unknown OP");
  return OPS;
}

static int count_of(const char* text, int least) {
  const long count = strtol(text, NULL, 10);
  if (count < least || count > 1000000000L) refuse("ROUND, ITERATIONS or WARMUP out of range");
  return (int)count;
}

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left when mpirun is killed */
  MPI_Init(&argc, &argv);
  if (argc < 6) refuse("usage: ROUND ITERATIONS WARMUP OP[,OP...] BYTES...");
  struct run run = {.round = count_of(argv[1], 1),
                    .iterations = count_of(argv[2], 1),
                    .warmup = count_of(argv[3], 0)};
  MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &run.ranks);
  for (char* name = strtok(argv[4], ","); name != NULL; name = strtok(NULL, ",")) {
    const enum op op = find_op(name);
    for (int i = 5; i < argc; i++) {
      const long bytes = op == BARRIER ? 0 : strtol(argv[i], NULL, 10);
      if (op != BARRIER && bytes < 1) refuse("BYTES below 1");
      measure(&run, op, bytes);
      if (op == BARRIER) break; /* it has one size */
    }
  }
  MPI_Finalize();
  return 0;
}
