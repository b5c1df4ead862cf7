// The names of PyTorch's built-in symbols without a pointer to each.
//
// Meaning: ATen/core/register_symbols.cpp keeps 2,400 entries of two pointers and two symbols. In
// a shared library that is 57 KB of data and 114 KB of relocations. Here the same names are one
// text and a byte each for the namespace. The unit is compiled with `-include` of this file.
//
// Trap: what follows in the unit is PyTorch's own constructor. It is given another name (the class's
// header has no guard: the unit reads it again, under that name) and a table of one entry; nothing
// refers to it, so that the linker drops it.
#pragma once

#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/interned_strings.h>
#include <ATen/core/interned_strings_class.h>

namespace c10 {

namespace lta_packed {

constexpr auto count = static_cast<unique_t>(_keys::num_symbols);

#define LTA_NAME(ns, s) #s "\0"
constexpr char names[] = FORALL_NS_SYMBOLS(LTA_NAME);
#undef LTA_NAME

// The namespaces come first in the list, so that a byte holds the number of one.
#define LTA_FITS(ns, s) static_cast<unique_t>(_keys::namespaces_##ns) < 256 &&
static_assert(FORALL_NS_SYMBOLS(LTA_FITS) true, "a namespace's number needs more than a byte");
#undef LTA_FITS

#define LTA_OWNER(ns, s) static_cast<unsigned char>(_keys::namespaces_##ns),
constexpr unsigned char owners[] = {FORALL_NS_SYMBOLS(LTA_OWNER)};
#undef LTA_OWNER

inline const char* next(const char* name) {
  return name + std::strlen(name) + 1;
}

} // namespace lta_packed

InternedStrings::InternedStrings() : sym_to_info_(lta_packed::count) {
  const char* name = lta_packed::names;
  for (unique_t number = 0; number < lta_packed::count; ++number) {
    const unsigned char owner = lta_packed::owners[number];
    const char* ns = lta_packed::names;
    for (unsigned skipped = 0; skipped < owner; ++skipped) {
      ns = lta_packed::next(ns);
    }
    std::string qualified = std::string(ns) + "::" + name;
    string_to_sym_[qualified] = Symbol(number);
    sym_to_info_[number] = {Symbol(owner), std::move(qualified), name};
    name = lta_packed::next(name);
  }
}

} // namespace c10

#define InternedStrings UnusedStrings
#undef FORALL_NS_SYMBOLS
#define FORALL_NS_SYMBOLS(_) _(namespaces, prim)
