#include <libtorch_app.h>
#include <toy/core.h>

#include <cstdio>

int main() {
  std::printf("%d %d %s\n", lta_add(2, 3), core_add(3, 4), operator_names().c_str());
  return 0;
}
