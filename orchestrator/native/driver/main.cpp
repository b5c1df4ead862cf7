// The driver alone: runs a model in whatever library it is linked with.
#include "driver.h"

int main(int argc, char** argv) {
  driver::Observer nobody;
  return driver::run(argc, argv, nobody);
}
