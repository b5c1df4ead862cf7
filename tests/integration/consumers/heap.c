/* How often the heap asks the system for pages again: before a model is loaded, and after. */
#include <libtorch_app.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { BLOCKS = 16, BYTES = 96 * 1024, ROUNDS = 50 };

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/* Blocks are taken, written and freed, as a run's tensors are. */
static void use_blocks(void) {
  void *volatile blocks[BLOCKS]; /* volatile: what nobody reads is not allocated */
  for (int i = 0; i < BLOCKS; ++i) {
    blocks[i] = malloc(BYTES);
    if (!blocks[i]) {
      abort();
    }
    memset(blocks[i], i, BYTES);
  }
  for (int i = BLOCKS; i-- > 0;) {
    free(blocks[i]);
  }
}

/* Page faults of a round, when there has been one. */
static long faults_of_a_round(void) {
  use_blocks();
  const long before = faults();
  for (int round = 0; round < ROUNDS; ++round) {
    use_blocks();
  }
  return (faults() - before) / ROUNDS;
}

int main(int count, char **arguments) {
  lta_module *module = NULL;
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a fault for each 4 KB, whatever the system prefers */
  const long before = faults_of_a_round();
  if (count != 2 || lta_module_load(arguments[1], &module) != LTA_OK) {
    return 1;
  }
  lta_module_free(module);
  printf("%ld %ld\n", before, faults_of_a_round());
  return 0;
}
