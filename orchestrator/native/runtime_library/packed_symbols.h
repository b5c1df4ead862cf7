// The names of PyTorch's built-in symbols without a pointer to each.
//
// Meaning: ATen/core/register_symbols.cpp keeps 2,400 entries of two pointers and two symbols. In
// a shared library that is 57 KB of data and 114 KB of relocations. Here the same names are one
// text, front-coded (a name says how much of the one before it begins with, most are sorted): 19.5 KB
// in place of 32.4 KB for the names and a byte for each one's namespace. The unit is compiled with
// `-include` of this file.
//
// Trap: what follows in the unit is PyTorch's own constructor. It is given another name (the class's
// header has no guard: the unit reads it again, under that name) and a table of one entry; nothing
// refers to it, so that the linker drops it.
#pragma once

#include <cstddef>
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

// Read by the compiler only: nothing refers to these two where the library runs.
#define LTA_NAME(ns, s) #s "\0"
constexpr char names[] = FORALL_NS_SYMBOLS(LTA_NAME);
#undef LTA_NAME
#define LTA_OWNER(ns, s) static_cast<unsigned char>(_keys::namespaces_##ns),
constexpr unsigned char owners[] = {FORALL_NS_SYMBOLS(LTA_OWNER)};
#undef LTA_OWNER

// The namespaces come first in the list, so that a byte holds the number of one.
#define LTA_FITS(ns, s) static_cast<unique_t>(_keys::namespaces_##ns) < 256 &&
static_assert(FORALL_NS_SYMBOLS(LTA_FITS) true, "a namespace's number needs more than a byte");
#undef LTA_FITS

// A name is a byte, an owner where that has changed, the rest of the name and a zero. The byte is
// how many characters it has in common with the name before it, and this bit:
constexpr unsigned char changed = 0x80;

constexpr std::size_t common(const char* before, const char* name) {
  std::size_t same = 0;
  while (same < changed - 1 && name[same] != 0 && before[same] == name[same]) {
    ++same;
  }
  return same;
}

// Writes to `out`, where it is not null; the size in bytes.
constexpr std::size_t pack(unsigned char* out) {
  std::size_t size = 0;
  std::size_t before = 0;
  std::size_t name = 0;
  for (unique_t number = 0; number < count; ++number) {
    const bool moved = number == 0 || owners[number] != owners[number - 1];
    const std::size_t same = number == 0 ? 0 : common(names + before, names + name);
    if (out != nullptr) {
      out[size] = static_cast<unsigned char>(same | (moved ? changed : 0));
    }
    ++size;
    if (moved) {
      if (out != nullptr) {
        out[size] = owners[number];
      }
      ++size;
    }
    before = name;
    name += same;
    do {
      if (out != nullptr) {
        out[size] = static_cast<unsigned char>(names[name]);
      }
      ++size;
    } while (names[name++] != 0);
  }
  return size;
}

struct Packed {
  unsigned char bytes[pack(nullptr)];
};

constexpr Packed make() {
  Packed made{};
  pack(made.bytes);
  return made;
}

constexpr Packed packed = make();

} // namespace lta_packed

InternedStrings::InternedStrings() : sym_to_info_(lta_packed::count) {
  const unsigned char* at = lta_packed::packed.bytes;
  unique_t owner = 0;
  std::string name;
  for (unique_t number = 0; number < lta_packed::count; ++number) {
    const unsigned char head = *at++;
    if (head & lta_packed::changed) {
      owner = *at++;
    }
    name.resize(head & ~lta_packed::changed);
    name += reinterpret_cast<const char*>(at);
    at += std::strlen(reinterpret_cast<const char*>(at)) + 1;
    sym_to_info_[number].ns = Symbol(owner);
    sym_to_info_[number].unqual_name = name;
  }
  for (unique_t number = 0; number < lta_packed::count; ++number) {
    SymbolInfo& info = sym_to_info_[number];
    info.qual_name = sym_to_info_[static_cast<unique_t>(info.ns)].unqual_name + "::" + info.unqual_name;
    string_to_sym_[info.qual_name] = Symbol(number);
  }
}

} // namespace c10

#define InternedStrings UnusedStrings
#undef FORALL_NS_SYMBOLS
#define FORALL_NS_SYMBOLS(_) _(namespaces, prim)
