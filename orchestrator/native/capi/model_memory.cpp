// See model_memory.h.
#include "model_memory.h"

#include <cerrno>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

// archive/crc32.cpp
extern "C" unsigned long mz_crc32(unsigned long before, const unsigned char* data, size_t size);

// AddressSanitizer watches what is behind its own allocator's memory alone.
#ifndef __has_feature // GCC
#define __has_feature(name) 0
#endif
#if __has_feature(address_sanitizer)
extern "C" void __asan_poison_memory_region(const volatile void* at, size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void* at, size_t size);
#else
#define __asan_poison_memory_region(at, size) static_cast<void>(at)
#define __asan_unpoison_memory_region(at, size) static_cast<void>(at)
#endif

namespace lta {

__thread ModelFile* Loading::current = nullptr;

namespace {

// Of what is smaller, pages of its own would cost more than they give back.
constexpr size_t kLeast = 16 << 10;
// Behind the bytes, as much as PyTorch's allocator for mobile builds has there, and more.
constexpr size_t kRoom = 64;

// The last Block of this thread, until its bytes are read.
__thread Block* awaited = nullptr;

#ifndef MAP_POPULATE // Apple's
#define MAP_POPULATE 0
#endif

// Those to write are there at once: one by one, each would cost an exception when it is first written.
void* pages(void* where, const Block& block, int access) {
  return ::mmap(where, block.size + kRoom, access,
                MAP_PRIVATE | MAP_ANONYMOUS | (where != nullptr ? MAP_FIXED : 0) |
                    (access != PROT_NONE ? MAP_POPULATE : 0),
                -1, 0);
}

void free_block(void* context) { delete static_cast<Block*>(context); }

} // namespace

size_t ModelFile::read(uint64_t at, void* buffer, size_t count) const {
  size_t done = 0;
  const uint64_t available = at < size_ ? size_ - at : 0;
  count = count < available ? count : size_t(available);
  while (done < count) {
    const ssize_t some = ::pread(descriptor_, static_cast<char*>(buffer) + done, count - done,
                                 off_t(at + done));
    if (some > 0) {
      done += size_t(some);
    } else if (some == 0 || errno != EINTR) {
      break;
    }
  }
  return done;
}

void ModelFile::close() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

Block::~Block() {
  if (awaited == this) {
    awaited = nullptr;
  }
  if (data != nullptr) {
    __asan_unpoison_memory_region(static_cast<char*>(data) + size, kRoom);
    ::munmap(data, size + kRoom);
  }
}

at::DataPtr RecordMemory::allocate(size_t size) const {
  if (Loading::current != nullptr && size >= kLeast) {
    auto block = std::make_unique<Block>();
    block->size = size;
    block->crc = crc;
    void* const data = pages(nullptr, *block, PROT_READ | PROT_WRITE);
    if (data != MAP_FAILED) {
      block->data = data;
      __asan_poison_memory_region(static_cast<char*>(data) + size, kRoom);
      awaited = block.get();
      return {data, block.release(), &free_block, at::Device(at::DeviceType::CPU)};
    }
  }
  return c10::GetCPUAllocator()->allocate(size);
}

size_t read_record(const std::shared_ptr<ModelFile>& file, uint64_t at, void* buffer, size_t count) {
  if (awaited != nullptr && awaited->data == buffer && awaited->size == count) {
    awaited->file = file;
    awaited->at = at;
    file->has_blocks = true;
    awaited = nullptr;
  }
  return file->read(at, buffer, count);
}

Block* block_of(const at::DataPtr& memory) {
  return memory.get_deleter() == &free_block ? static_cast<Block*>(memory.get_context()) : nullptr;
}

void leave(Block& block) {
  // Without access: whoever reads them without `read_again` is to be seen.
  if (block.may_leave && !block.is_away) {
    block.is_away = pages(block.data, block, PROT_NONE) != MAP_FAILED;
  }
}

void read_again(Block& block) {
  if (!block.is_away) {
    return;
  }
  if (pages(block.data, block, PROT_READ | PROT_WRITE) == MAP_FAILED) {
    throw std::bad_alloc();
  }
  block.is_away = false;
  if (block.file->read(block.at, block.data, block.size) != block.size ||
      mz_crc32(0, static_cast<const unsigned char*>(block.data), block.size) != block.crc) {
    leave(block);
    // No TORCH_CHECK: it would strip the text.
    throw c10::Error({__func__, "model", 0},
                     "the model's file was changed after the model was loaded");
  }
}

} // namespace lta
