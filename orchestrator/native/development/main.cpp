// The model runner of the development library: the driver, watched by what times operators. Its
// output is the driver's, "operators" and "kernel_tags". With --record as its first argument, the
// recorder watches, and the output is a tracer's.
#include <cstring>

#include "observer.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--record") == 0) {
    return driver::run(argc - 1, argv + 1, *lta_development_recorder());
  }
  return driver::run(argc, argv, *lta_development_observer());
}
