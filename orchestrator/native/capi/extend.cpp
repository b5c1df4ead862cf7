// Loads add-ons; in libraries with `extensible: true` alone. See extension.h and addon_note.h.
//
// Trap: an add-on is not unloaded once it is registered: the dispatcher keeps pointers into it.
#include "addon_note.h"
#include "extension.h"

#include <cstring>
#include <string>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// The linker's own symbol: the start of the file in memory.
extern "C" const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

namespace lta {
namespace {

const unsigned kMostLoaded = 64;
void* loaded[kMostLoaded];
unsigned loaded_count = 0;

// A note in memory of some bytes, none of which is trusted; null where there is none of this kind.
const char* find_note(const char* at, size_t size, uint32_t type, const char* name,
                      size_t wanted) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, at, sizeof head);
    const size_t name_size = (size_t(head.n_namesz) + 3) & ~size_t(3);
    const size_t desc_size = (size_t(head.n_descsz) + 3) & ~size_t(3);
    if (name_size > size || desc_size > size || sizeof head + name_size + desc_size > size) {
      return nullptr;
    }
    if (head.n_type == type && head.n_descsz >= wanted && head.n_namesz == 4 &&
        std::memcmp(at + sizeof head, name, 4) == 0) {
      return at + sizeof head + name_size;
    }
    at += sizeof head + name_size + desc_size;
    size -= sizeof head + name_size + desc_size;
  }
  return nullptr;
}

// This library's own build id.
const char* own_build_id() {
  const char* base = reinterpret_cast<const char*>(&__ehdr_start);
  const auto* header = reinterpret_cast<const ElfW(Phdr)*>(base + __ehdr_start.e_phoff);
  for (int i = 0; i < __ehdr_start.e_phnum; ++i, ++header) {
    if (header->p_type == PT_NOTE) {
      const char* found =
          find_note(base + header->p_vaddr, header->p_memsz, 3, "GNU", LTA_BUILD_ID_BYTES);
      if (found) {
        return found;
      }
    }
  }
  return nullptr;
}

std::string hex(const char* bytes) {
  std::string text;
  for (int i = 0; i < LTA_BUILD_ID_BYTES; ++i) {
    text += "0123456789abcdef"[(bytes[i] >> 4) & 15];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

// The pages of a file, and of these the part that is an add-on.
struct Mapped {
  const char* pages = nullptr;
  size_t pages_size = 0;
  const char* data = nullptr;
  size_t size = 0;
  ~Mapped() {
    if (pages) {
      ::munmap(const_cast<char*>(pages), pages_size);
    }
  }
};

bool map(const char* path, Mapped& file) {
  const int opened = ::open(path, O_RDONLY | O_CLOEXEC);
  if (opened < 0) {
    return false;
  }
  struct stat status {};
  const bool good = ::fstat(opened, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
  void* data = good ? ::mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, opened, 0)
                    : MAP_FAILED;
  ::close(opened);
  if (data == MAP_FAILED) {
    return false;
  }
  file.pages = file.data = static_cast<const char*>(data);
  file.pages_size = file.size = size_t(status.st_size);
  return true;
}

uint32_t number(const char* at, int bytes) {
  uint32_t value = 0;
  for (int i = bytes; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(at[i]);
  }
  return value;
}

// Narrows a mapped zip to one of its files. False where it is none, or has it not as it is: a
// loader maps what is not packed. Format: PKWARE's APPNOTE.TXT, 4.3; none of it is trusted.
bool narrow(Mapped& zip, const char* name) {
  const size_t kEnd = 22, kEntry = 46, kHead = 30, name_size = std::strlen(name);
  if (zip.size < kEnd) {
    return false;
  }
  // behind it there may be a comment of up to 65,535 bytes
  size_t end = zip.size - kEnd;
  const size_t least = end > 0xffff ? end - 0xffff : 0;
  while (number(zip.data + end, 4) != 0x06054b50) {
    if (end-- == least) {
      return false;
    }
  }
  size_t at = number(zip.data + end + 16, 4);
  for (uint32_t left = number(zip.data + end + 10, 2); left > 0; --left) {
    if (at > end || end - at < kEntry || number(zip.data + at, 4) != 0x02014b50) {
      return false;
    }
    const char* const entry = zip.data + at;
    const size_t size = number(entry + 28, 2);
    if (size == name_size && end - at - kEntry >= size &&
        std::memcmp(entry + kEntry, name, size) == 0) {
      const size_t bytes = number(entry + 24, 4), head = number(entry + 42, 4);
      if (number(entry + 10, 2) != 0 || head > end || end - head < kHead) {
        return false;
      }
      const char* const local = zip.data + head;
      const size_t skipped = kHead + number(local + 26, 2) + number(local + 28, 2);
      if (skipped > end - head || bytes > end - head - skipped) {
        return false;
      }
      zip.data += head + skipped;
      zip.size = bytes;
      return true;
    }
    at += kEntry + size + number(entry + 30, 2) + number(entry + 32, 2);
  }
  return false;
}

// Maps a file, or one in an APK as Android's loader takes it: <apk>!/lib/<abi>/<name>.so
bool map_either(const char* path, Mapped& file) {
  if (map(path, file)) {
    return true;
  }
  const char* inside = std::strstr(path, "!/");
  return inside && map(std::string(path, inside).c_str(), file) && narrow(file, inside + 2);
}

// The add-on's note in a file; null for a file that is none, or is damaged.
const char* addon_note(const Mapped& file) {
  ElfW(Ehdr) head;
  if (file.size < sizeof head) {
    return nullptr;
  }
  std::memcpy(&head, file.data, sizeof head);
  if (std::memcmp(head.e_ident, __ehdr_start.e_ident, EI_DATA + 1) != 0 ||
      head.e_machine != __ehdr_start.e_machine || head.e_phentsize != sizeof(ElfW(Phdr)) ||
      head.e_phoff > file.size ||
      size_t(head.e_phnum) * sizeof(ElfW(Phdr)) > file.size - head.e_phoff) {
    return nullptr;
  }
  const char* found = nullptr;
  for (int i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) part;
    std::memcpy(&part, file.data + head.e_phoff + size_t(i) * sizeof part, sizeof part);
    // the loader maps segments that reach beyond the file, and faults when they are read
    if (part.p_offset > file.size || part.p_filesz > file.size - part.p_offset) {
      return nullptr;
    }
    if (part.p_type == PT_NOTE && !found) {
      found = find_note(file.data + part.p_offset, part.p_filesz, LTA_ADDON_TYPE, LTA_ADDON_NAME,
                        4 + LTA_BUILD_ID_BYTES + LTA_ADDON_TEXT_BYTES);
    }
  }
  return found;
}

std::string fault_of(const char* path, const Mapped& file) {
  const char* note = addon_note(file);
  if (!note) {
    return std::string("not an add-on for this processor, or damaged: ") + path;
  }
  uint32_t version = 0;
  std::memcpy(&version, note, sizeof version);
  const char* own = own_build_id();
  if (version == LTA_ADDON_VERSION && own &&
      std::memcmp(note + 4, own, LTA_BUILD_ID_BYTES) == 0) {
    return std::string();
  }
  const char* text = note + 4 + LTA_BUILD_ID_BYTES;
  std::string fault("this add-on is for another library: for ");
  fault.append(text, ::strnlen(text, LTA_ADDON_TEXT_BYTES));
  fault += ", build id ";
  fault += hex(note + 4);
  fault += "; this library's build id is ";
  fault += own ? hex(own) : std::string("missing");
  return fault;
}

std::string extend(const char* path) {
  {
    Mapped file;
    if (!map_either(path, file)) {
      return std::string("the add-on cannot be read: ") + path;
    }
    std::string fault = fault_of(path, file);
    if (!fault.empty()) {
      return fault;
    }
  }
  struct Alone {
    Alone() { pthread_rwlock_wrlock(&extension->in_use); }
    ~Alone() { pthread_rwlock_unlock(&extension->in_use); }
  };
  const Alone alone;
  // a name without a slash would be looked up elsewhere
  const std::string file = std::strchr(path, '/') ? std::string(path) : std::string("./") + path;
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = ::dlerror();
    return std::string("the add-on cannot be loaded: ") + (why ? why : path);
  }
  for (unsigned i = 0; i < loaded_count; ++i) {
    if (loaded[i] == handle) {
      ::dlclose(handle);
      return std::string();
    }
  }
  const auto enter =
      reinterpret_cast<lta_addon_register_function>(::dlsym(handle, "lta_addon_register"));
  char text[512] = "it has no lta_addon_register";
  if (loaded_count == kMostLoaded) {
    std::strcpy(text, "there are 64 add-ons already");
  } else if (enter && enter(text, sizeof text) == 0) {
    loaded[loaded_count++] = handle;
    return std::string();
  }
  ::dlclose(handle);
  return std::string("the add-on cannot be registered: ") + text;
}

Extension own_extension = {PTHREAD_RWLOCK_INITIALIZER, extend};

struct Offer {
  Offer() { extension = &own_extension; }
} const offer;

} // namespace
} // namespace lta
