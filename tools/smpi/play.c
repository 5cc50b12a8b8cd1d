/* Plays timetables (bench_scaling --tables RANKS FILE) as an MPI program: computing is flops of SimGrid's hosts, whose
   speed is 1e9 a second; letters are sent from and to one buffer that nobody reads. Rank 0 prints the seconds.
   usage: smpirun … play FILE */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kVoteBytes = 64, kVoteTag = 1 << 16 };
enum kind { compute, start_send, start_receive, finish, vote };

struct entry {
  enum kind kind;
  double seconds;
  int letter, peer, tag;
  long bytes;
};

static struct entry* entries;
static int entry_count, letter_count;
static long most_bytes = kVoteBytes;

static void fail(const char* what) {
  fprintf(stderr, "play: %s\n", what);
  exit(1);
}

static int read_entry(FILE* file, struct entry* e) {
  char word[16];
  memset(e, 0, sizeof *e);
  if (fscanf(file, "%15s", word) != 1) return 0;
  if (!strcmp(word, "compute")) return e->kind = compute, fscanf(file, "%lf", &e->seconds) == 1;
  if (!strcmp(word, "wait")) return e->kind = finish, fscanf(file, "%d", &e->letter) == 1;
  if (!strcmp(word, "vote")) return e->kind = vote, 1;
  e->kind = !strcmp(word, "send") ? start_send : start_receive;
  return fscanf(file, "%d %d %d %ld", &e->letter, &e->peer, &e->tag, &e->bytes) == 4;
}

static void read_table(const char* path, int own) {
  FILE* file = fopen(path, "r");
  if (!file) fail("no timetables");
  for (int rank = -1, count = 0, letters = 0; rank < own;) {
    if (fscanf(file, " rank %d %d %d", &rank, &count, &letters) != 3) fail("no such rank");
    struct entry skipped;
    if (rank == own) {
      entry_count = count;
      letter_count = letters;
      entries = malloc(sizeof *entries * (size_t)(count ? count : 1));
    }
    for (int i = 0; i < count; ++i) {
      struct entry* e = rank == own ? &entries[i] : &skipped;
      if (!read_entry(file, e)) fail("a wrong entry");
      if (rank == own && e->bytes > most_bytes) most_bytes = e->bytes;
    }
  }
  fclose(file);
}

/* By dissemination, as src/ebb/dist/collectives.cpp does it. */
static void take_vote(char* bytes, int rank, int size) {
  for (int far = 1, round = 0; far < size; far *= 2, ++round) {
    MPI_Request both[2];
    MPI_Isend(bytes, kVoteBytes, MPI_BYTE, (rank + far) % size, kVoteTag + round, MPI_COMM_WORLD, &both[0]);
    MPI_Irecv(bytes, kVoteBytes, MPI_BYTE, (rank + size - far) % size, kVoteTag + round, MPI_COMM_WORLD,
              &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 2) fail("usage: play FILE");
  read_table(argv[1], rank);
  char* bytes = SMPI_SHARED_MALLOC((size_t)most_bytes);
  MPI_Request* letters = malloc(sizeof *letters * (size_t)(letter_count ? letter_count : 1));
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < entry_count; ++i) {
    const struct entry* e = &entries[i];
    switch (e->kind) {
      case compute:
        smpi_execute_flops(e->seconds * 1e9);
        break;
      case start_send:
        MPI_Isend(bytes, (int)e->bytes, MPI_BYTE, e->peer, e->tag, MPI_COMM_WORLD, &letters[e->letter]);
        break;
      case start_receive:
        MPI_Irecv(bytes, (int)e->bytes, MPI_BYTE, e->peer, e->tag, MPI_COMM_WORLD, &letters[e->letter]);
        break;
      case finish:
        MPI_Wait(&letters[e->letter], MPI_STATUS_IGNORE);
        break;
      case vote:
        take_vote(bytes, rank, size);
    }
  }
  double own = MPI_Wtime() - begin, all = 0;
  MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%.6f\n", all);
  SMPI_SHARED_FREE(bytes);
  MPI_Finalize();
  return 0;
}
