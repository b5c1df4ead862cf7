// A library without threads.
#include "pool.h"

namespace lta {

int wanted_threads() { return 1; }
bool set_wanted_threads(int count) { return count == 1; }
void begin_run() {}
void end_run() {}

} // namespace lta
