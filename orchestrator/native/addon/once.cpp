// Operators that several add-ons of one library may register: see `once.h`.
#include "once.h"

#include <map>
#include <string>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>

namespace lta {

bool registers(const char* name, const char* overload) {
  static std::map<std::pair<std::string, std::string>, bool> asked;
  const auto [found, is_new] = asked.try_emplace({name, overload}, true);
  if (is_new) {
    found->second = !c10::Dispatcher::singleton().findSchema({name, overload}).has_value();
  }
  return found->second;
}

} // namespace lta
