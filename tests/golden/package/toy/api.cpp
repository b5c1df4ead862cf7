#include "libtorch_app.h"

#include <exception>

#include "core.h"

int lta_add(int left, int right) {
  try {
    return core_add(left, right);
  } catch (const std::exception&) {
    return -1;
  }
}

const char *lta_version(void) { return "toy 1"; }
