// What every add-on has of ours: its note, and the function that registers it. See addon_note.h.
#include "../capi/addon_note.h"

#include <cstring>
#include <exception>

using Initialiser = void (*)(int, char**, char**);

extern "C" {
// The linker's own symbols: the initialisers that the loader does not know of.
extern const Initialiser __init_array_start[] __attribute__((visibility("hidden")));
extern const Initialiser __init_array_end[] __attribute__((visibility("hidden")));
extern void* __dso_handle __attribute__((visibility("hidden")));
void __cxa_finalize(void*);

// Filled in when the add-on has been linked.
__attribute__((used, section(LTA_ADDON_SECTION), aligned(4))) const lta_addon_note lta_note = {
    4, 4 + LTA_BUILD_ID_BYTES + LTA_ADDON_TEXT_BYTES, LTA_ADDON_TYPE, LTA_ADDON_NAME,
    LTA_ADDON_VERSION, {}, {}};

__attribute__((visibility("default"))) int lta_addon_register(char* text, unsigned size) {
  const char* why = "an exception of an unknown type";
  try {
    for (const Initialiser* one = __init_array_start; one != __init_array_end; ++one) {
      (*one)(0, nullptr, nullptr);
    }
    return 0;
  } catch (const std::exception& error) {
    why = error.what();
    std::strncpy(text, why, size - 1);
  } catch (...) {
    std::strncpy(text, why, size - 1);
  }
  text[size - 1] = '\0';
  // what is registered so far deregisters itself when it is destroyed
  __cxa_finalize(&__dso_handle);
  return 1;
}
}
