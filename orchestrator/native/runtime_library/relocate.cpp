// Relocates the library that it is linked into, where the system's loader cannot.
//
// Meaning: a pointer in data (a vtable's entry, say) must have the address that the library was
// loaded at added to it. ELF's table for that takes 24 bytes a pointer, 69 KB of a small library;
// packed (RELR: System V gABI, "Relative Relocation Table") it takes 1 KB, but glibc before 2.36 and
// musl before 1.2.4 do not read that. So the linker names the packed table by Android's tags, which
// these loaders do not know and pass over, and the library applies it itself, as Firefox's do.
//
// Trap: nothing here, and nothing that runs before, may read a pointer in data that the table is to
// relocate. This runs first of the library's initialisers because its entry is in `.init_array.0`,
// and the entry itself is relocated by the loader because its type is packed: lld packs the table
// for sections that are aligned to two bytes and more, and this one is to one.
// A library that was linked without the packed table has no such tag, and nothing happens.
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The linker's own symbol: the start of the file in memory.
extern "C" const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

namespace {

using Word = ElfW(Addr);

// bionic, libc/include/elf.h
constexpr long kAndroidRelr = 0x6fffe000;
constexpr long kAndroidRelrSize = 0x6fffe001;

// Where the packed table is, and the whole pages that the loader made read-only when it had
// relocated the library (PT_GNU_RELRO).
struct Found {
  const Word* table = nullptr;
  const Word* table_end = nullptr;
  Word read_only = 0;
  Word read_only_end = 0;
};

Word loaded_at() {
  return reinterpret_cast<Word>(&__ehdr_start);
}

void find_table(const ElfW(Dyn)* entry, Found& found) {
  Word table = 0;
  Word size = 0;
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == kAndroidRelr) {
      table = loaded_at() + entry->d_un.d_ptr;
    } else if (entry->d_tag == kAndroidRelrSize) {
      size = entry->d_un.d_val;
    }
  }
  found.table = reinterpret_cast<const Word*>(table);
  found.table_end = reinterpret_cast<const Word*>(table + size);
}

Found find() {
  Found found;
  const auto* header = reinterpret_cast<const ElfW(Phdr)*>(loaded_at() + __ehdr_start.e_phoff);
  const Word page = static_cast<Word>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < __ehdr_start.e_phnum; ++i, ++header) {
    const Word begin = loaded_at() + header->p_vaddr;
    if (header->p_type == PT_DYNAMIC) {
      find_table(reinterpret_cast<const ElfW(Dyn)*>(begin), found);
    } else if (header->p_type == PT_GNU_RELRO) {
      found.read_only = begin & ~(page - 1);
      found.read_only_end = (begin + header->p_memsz) & ~(page - 1);
    }
  }
  if (found.read_only_end < found.read_only) {
    found.read_only_end = found.read_only; // less than a page
  }
  return found;
}

[[noreturn]] void refuse() {
  // There is no way to report it to who loads a library, and no way to go on.
  constexpr char said[] =
      "libtorch: this system keeps the library from relocating its data: neither mprotect nor "
      "mremap is allowed; it can be built with `self_relocation: false`\n";
  const ssize_t written = write(STDERR_FILENO, said, sizeof(said) - 1);
  static_cast<void>(written);
  abort();
}

// Pages that can be written, with what the read-only ones hold.
char* copied(const Found& found) {
  const size_t size = found.read_only_end - found.read_only;
  void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    refuse();
  }
  return static_cast<char*>(memcpy(pages, reinterpret_cast<void*>(found.read_only), size));
}

// A word is an address, which is relocated; or, odd, a bit for each word that follows the last one.
// What lies in the read-only pages is written `shift` bytes further.
void apply(const Found& found, Word shift) {
  constexpr size_t bits = 8 * sizeof(Word) - 1;
  const auto add = [&](Word* where) {
    const Word at = reinterpret_cast<Word>(where);
    const bool inside = at >= found.read_only && at < found.read_only_end;
    *reinterpret_cast<Word*>(inside ? at + shift : at) += loaded_at();
  };
  Word* where = nullptr;
  for (const Word* entry = found.table; entry != found.table_end; ++entry) {
    if ((*entry & 1) == 0) {
      where = reinterpret_cast<Word*>(loaded_at() + *entry);
      add(where++);
      continue;
    }
    Word* next = where;
    for (Word left = *entry >> 1; left != 0; left >>= 1, ++next) {
      if (left & 1) {
        add(next);
      }
    }
    where += bits;
  }
}

void relocate() {
  const Found found = find();
  if (found.table == found.table_end) {
    return;
  }
  auto* const pages = reinterpret_cast<void*>(found.read_only);
  const size_t size = found.read_only_end - found.read_only;
  if (size == 0) {
    apply(found, 0);
  } else if (mprotect(pages, size, PROT_READ | PROT_WRITE) == 0) {
    apply(found, 0);
    mprotect(pages, size, PROT_READ);
  } else {
    // A filter of system calls may forbid just that. Then other pages take their place, which are
    // written before: in one step, so that nobody finds none.
    char* const others = copied(found);
    apply(found, reinterpret_cast<Word>(others) - found.read_only);
    if (mremap(others, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pages) == MAP_FAILED) {
      refuse();
    }
    mprotect(pages, size, PROT_READ);
  }
}

struct __attribute__((packed)) Entry {
  void (*run)();
};
__attribute__((section(".init_array.0"), used)) Entry first = {relocate};

} // namespace
