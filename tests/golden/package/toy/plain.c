/* A library of any processor that needs no libc. */
#include "libtorch_app.h"
static int hidden_count;
__attribute__((noinline)) static int hidden_add(int left, int right) {
  hidden_count++;
  return left + right;
}
int lta_add(int left, int right) { return hidden_add(left, right); }
const char *lta_version(void) { return "toy 1"; }
int more(void) { return hidden_count; }
