// Asks the runtime for each of PyTorch's built-in symbols: number by name, names by number.
// Prints how many there are, or the first that is not as PyTorch's own list says.
#include <cstdio>
#include <cstring>

#include <ATen/core/interned_strings.h>

namespace {

int wrong(const char* what, const char* space, const char* name) {
  std::printf("%s of %s::%s\n", what, space, name);
  return 1;
}

int check(c10::unique_t number, const char* space, const char* name) {
  const c10::Symbol symbol(number);
  const std::string qualified = std::string(space) + "::" + name;
  if (c10::Symbol::fromQualString(qualified) != symbol) {
    return wrong("another number", space, name);
  }
  if (qualified != symbol.toQualString() || std::strcmp(symbol.toUnqualString(), name) != 0) {
    return wrong("another name", space, name);
  }
  if (symbol.ns() != c10::Symbol::fromQualString(std::string("namespaces::") + space)) {
    return wrong("another namespace", space, name);
  }
  return 0;
}

} // namespace

int main() {
  int count = 0;
#define CHECK(ns, s)                                                       \
  if (check(static_cast<c10::unique_t>(c10::_keys::ns##_##s), #ns, #s)) { \
    return 1;                                                              \
  }                                                                        \
  ++count;
  FORALL_NS_SYMBOLS(CHECK)
#undef CHECK
  // A name that is not built in gets a number behind theirs.
  const c10::Symbol added = c10::Symbol::fromQualString("aten::not_built_in");
  if (static_cast<int>(static_cast<c10::unique_t>(added)) < count) {
    return wrong("a number of a built-in one", "aten", "not_built_in");
  }
  std::printf("%d symbols\n", count);
  return 0;
}
