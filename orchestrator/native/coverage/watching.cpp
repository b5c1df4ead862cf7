// Has a tracer's driver report coverage, whatever its main() watches.
#include "coverage.h"
#include "driver.h"

namespace {

const driver::Watching watching(coverage::observer());

} // namespace
