// The model runner of the development library: the driver, watched by what times operators. Its
// output is the driver's, and "operators".
#include "observer.h"

int main(int argc, char** argv) {
  return driver::run(argc, argv, *lta_development_observer());
}
