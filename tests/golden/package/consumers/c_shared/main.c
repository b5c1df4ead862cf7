#include <libtorch_app.h>
#include <stdio.h>

int main(void) {
  printf("%d %s\n", lta_add(2, 3), lta_version());
  return 0;
}
