// What an add-on says of itself: an ELF note, and the function that registers it.
//
// Meaning: an add-on takes what it does not have from the library that it was linked for, whose
// inline functions and data layout it shares. Only that very build will do. So the add-on holds that
// build's id where it can be read before any of its code runs, and no initialiser of it runs by
// itself: `orchestrator/binary/elf_addon.py` fills in the note, and takes the initialisers from the
// loader.
#pragma once

#include <stdint.h>

#define LTA_ADDON_SECTION ".note.lta.addon"
#define LTA_ADDON_NAME "LTA"
#define LTA_ADDON_TYPE 1
#define LTA_BUILD_ID_BYTES 20
#define LTA_ADDON_TEXT_BYTES 108
// Raised by one when an add-on and a library of different releases of ours could not agree.
#define LTA_ADDON_VERSION 1

// A note as System V gABI has it. `made_for`: what the library is, for people: ends with a NUL.
struct lta_addon_note {
  uint32_t name_size;
  uint32_t size;
  uint32_t type;
  char name[4];
  uint32_t version;
  unsigned char build_id[LTA_BUILD_ID_BYTES];
  char made_for[LTA_ADDON_TEXT_BYTES];
};

// Runs the add-on's initialisers, which register its operators. 0, or 1 with what failed in `text`,
// of `size` bytes: then all of it has been taken back.
typedef int (*lta_addon_register_function)(char* text, unsigned size);
