// Memory of a model's large tensors that can be given back to the system, and read again.
//
// Meaning: while a model is loaded from a path, each large record is read into pages of its own, a
// Block, which remembers where in the file it lies. When layers have packed the weights in a Block and
// nothing else reads them (kernels/rewrite.cpp finds out), its pages are given back. Who needs them
// even so calls `read_again`. Nothing is mapped from the file: one that is cut off or written while its
// model is loaded costs an error where it is read again, and no signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include <c10/core/Allocator.h>

namespace lta {

// A model's file, open as long as a Block may be read again.
class ModelFile {
 public:
  ModelFile(int descriptor, size_t size) : size_(size), descriptor_(descriptor) {}
  ~ModelFile() { close(); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  size_t size() const { return size_; }
  // How many bytes there were: fewer at the file's end, or where it cannot be read.
  size_t read(uint64_t at, void* buffer, size_t count) const;
  void close();

  void close_unless_needed() {
    if (!is_needed) {
      close();
    }
  }

  bool has_blocks = false;
  bool is_needed = false; // some of them may leave
  // Held by who packs or reads again: another thread does not take pages away from under it.
  std::mutex mutex;

 private:
  const size_t size_;
  int descriptor_;
};

struct Block {
  ~Block();
  void* data = nullptr;
  size_t size = 0; // as the record
  uint32_t crc = 0;
  std::shared_ptr<ModelFile> file; // null: its bytes do not lie in a file as they are in memory
  uint64_t at = 0;
  bool read_elsewhere = false; // by something that is no layer with packed weights
  bool may_leave = false;      // set once all of the model is known
  bool is_away = false;
  int layers = 0; // with packed weights that read it, as far as it is certain
};

// Says which file this thread loads a model from. Null: from memory, or in a library that packs nothing.
class Loading {
 public:
  explicit Loading(const std::shared_ptr<ModelFile>& file) { current = file.get(); }
  ~Loading() { current = nullptr; }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  static __thread ModelFile* current;
};

// What a record is read into: in the place of PyTorch's allocator for it, where inline_container.cc reads
// one (checked_records.h).
struct RecordMemory {
  uint32_t crc;
  const RecordMemory* operator->() const { return this; }
  at::DataPtr allocate(size_t size) const;
};

// Reads, and remembers for a Block where in the file it lies.
size_t read_record(const std::shared_ptr<ModelFile>& file, uint64_t at, void* buffer, size_t count);

// The Block that holds a tensor's memory, or null.
Block* block_of(const at::DataPtr& memory);

// Both with the file's mutex held. The second raises c10::Error where the file is another by now.
void leave(Block& block);
void read_again(Block& block);

} // namespace lta
