/* One rank of the peer measurement with MPI.
 *
 * usage: mpi_all_reduce BYTES:ITERATIONS...
 * Rank 0 prints one JSON line per size: {"bytes", "times_us"}; times are its own, per call. Each
 * size is measured in place and out of place; the faster of the two is printed. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWarmup = 2, kRenewal = 16 };

static void fill(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = 1e-3F;
}

static int compare_doubles(const void* a, const void* b) {
  const double left = *(const double*)a;
  const double right = *(const double*)b;
  return (left > right) - (left < right);
}

static double median(const double* times, int count) {
  double* sorted = malloc((size_t)count * sizeof *sorted);
  if (sorted == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < count; ++i) sorted[i] = times[i];
  qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
  const double middle = sorted[count / 2];
  free(sorted);
  return middle;
}

static void measure(float* send, float* receive, size_t count, int in_place, int iterations,
                    double* times_us) {
  fill(send, count);
  fill(receive, count);
  for (int iteration = -kWarmup; iteration < iterations; ++iteration) {
    const double begin = MPI_Wtime();
    MPI_Allreduce(in_place ? MPI_IN_PLACE : (void*)send, receive, (int)count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    const double elapsed = MPI_Wtime() - begin;
    if (iteration >= 0) times_us[iteration] = elapsed * 1e6;
    if (iteration % kRenewal == 0) {
      if (in_place) fill(receive, count); /* Keeps the sums finite. */
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

static void print_times(size_t bytes, const double* times_us, int iterations) {
  printf("{\"bytes\": %zu, \"times_us\": [", bytes);
  for (int i = 0; i < iterations; ++i) printf("%s%.3f", i == 0 ? "" : ", ", times_us[i]);
  printf("]}\n");
  fflush(stdout);
}

static void run_size(size_t bytes, int iterations, int rank) {
  const size_t count = bytes / sizeof(float);
  float* send = malloc(bytes);
  float* receive = malloc(bytes);
  double* in_place = malloc((size_t)iterations * sizeof *in_place);
  double* out_of_place = malloc((size_t)iterations * sizeof *out_of_place);
  if (send == NULL || receive == NULL || in_place == NULL || out_of_place == NULL) {
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  measure(send, receive, count, 1, iterations, in_place);
  measure(send, receive, count, 0, iterations, out_of_place);
  if (rank == 0) {
    const int better = median(in_place, iterations) < median(out_of_place, iterations);
    print_times(bytes, better ? in_place : out_of_place, iterations);
  }
  free(send);
  free(receive);
  free(in_place);
  free(out_of_place);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; ++i) {
    size_t bytes = 0;
    int iterations = 0;
    if (sscanf(argv[i], "%zu:%d", &bytes, &iterations) != 2 || iterations < 1) {
      fprintf(stderr, "mpi_all_reduce: %s is not BYTES:ITERATIONS\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    run_size(bytes, iterations, rank);
  }
  MPI_Finalize();
  return 0;
}
