// The model runner that counts memory: the driver, watched by what knows who allocates.
#include "heap.h"
#include "watch.h"

int main(int argc, char** argv) {
  memory::count(false);
  return driver::run(argc, argv, memory::observer());
}
