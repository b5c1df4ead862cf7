// Operators whose kernels the library has, and no registration: each add-on that wants one would
// register the same kernels. The first that is loaded does; what it has registered stays, since no
// add-on is ever unloaded.
#pragma once

namespace lta {

// Whether this add-on registers an operator: nobody had when it was first asked. The first question
// comes before any registration of the operator by this add-on.
bool registers(const char* name, const char* overload);

} // namespace lta
