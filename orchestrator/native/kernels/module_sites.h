// Faster kernels for a loaded model: operators of its bytecode that carry their packed weights.
//
// Meaning: after a model is loaded, `prepare_module` (rewrite.cpp) looks through the bytecode of its
// methods. Where a convolution or a linear layer takes weights that nothing writes to, the
// instruction is given an operator of its own, a Site: it packs the weights when it or another layer
// of the method first runs, and takes into the same call a batch normalisation and a clamp (relu,
// relu6) that follow. What a Site cannot do, such as another dtype, it leaves to the model's own
// operators, which it keeps.
//
// A model is what it was in all other ways: weights, attributes and signatures stay as they are.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/jit/mobile/module.h>

#include "../capi/prepare_module.h"

namespace lta {

using Stack = std::vector<c10::IValue>;

// What a Site does after its main operator, before the result leaves it.
enum class Follower : uint8_t { kNone, kBatchNorm, kClamp };

// An operator of the model, as it was, and how many values it takes off the stack.
struct Step {
  std::function<void(Stack&)> run;
  size_t taken = 0;
  Follower follower = Follower::kNone;
  bool takes_limits = false; // hardtanh, clamp: two more arguments; else relu, or relu6
  float least = 0, most = 0; // without arguments
};

// The arguments of one step: `none` for those that the model does not give.
class Arguments {
 public:
  Arguments() = default;
  Arguments(const c10::IValue* first, size_t count) : first_(first), count_(count) {}
  const c10::IValue& operator[](size_t index) const;

 private:
  const c10::IValue* first_ = nullptr;
  size_t count_ = 0;
};

// What a Site makes of its weights when it first runs.
struct Packed {
  virtual ~Packed() = default;

  // All that the Site takes but its inputs, as it was: the same weights and numbers need no packing.
  // Holding them keeps their addresses from being given to others.
  std::vector<c10::IValue> kept;
};

// The arguments of a Site, read for packing.
struct Given {
  Arguments main;       // of the main operator
  bool normalised = false;
  Arguments norm;       // of the batch normalisation, from its second argument on
  float least, most;    // of the clamp
};

// What a Site puts on the stack. None: then the model's own operators run.
using Results = c10::SmallVector<at::Tensor, 3>;

// The weights that an object holds: undefined where it does not tell.
using WeightOf = at::Tensor(const c10::IValue& object);

class Site {
 public:
  // input: which argument is not packed; inputs: how many, from it on. The first is a tensor.
  // any: it need not be plain; who packs and computes looks at it
  Site(std::vector<Step> steps, size_t input, size_t inputs = 1, bool any = false)
      : steps_(std::move(steps)), input_(input), inputs_(inputs), any_(any) {}
  virtual ~Site();

  // Takes the arguments of all steps off the stack and puts the result on it.
  void run(Stack& stack);

  // One of the layers of a method: with the first that is packed, those are whose arguments are given
  // here, so that weights that leave memory do so before activations take it.
  // arguments: what it takes in every run, `none` for its inputs; after: another layer, or null.
  void pack_with(Site* after, Stack&& arguments);

  bool is_input(size_t argument) const { return argument - input_ < inputs_; }

  // As its kind's.
  WeightOf* weight_of = nullptr;

  // Whether the result may be as Sites have it among themselves: who takes it does not mind. Floats
  // have their channels last in memory, 8-bit integers are signed (quantised.h).
  bool channels_last = false;

 protected:
  // It is packed as often as its arguments change.
  bool has_no_weights = false;
  // Its input may have no elements: no image, no row.
  bool takes_none = false;

  // Null where it cannot be packed: then the model's own operators run, now and later.
  virtual std::unique_ptr<Packed> pack(const Given& given) const = 0;
  // None where these inputs are not for it. The first is plain.
  virtual Results compute(Packed& packed, const Arguments& inputs) const = 0;

 private:
  Results try_to_compute(const c10::IValue* first, size_t taken);
  std::unique_ptr<Packed> pack_all(const c10::IValue* first, size_t taken) const;
  void pack_others();
  bool read(const c10::IValue* first, Given* given) const;

  const std::vector<Step> steps_;
  const size_t input_, inputs_;
  const bool any_;
  std::atomic<Packed*> shelf_{nullptr}; // threads take it in turn; who finds none packs his own
  std::atomic<int> misses_{0};
  Site* next_ = this; // the ring of a method's layers
  Stack arguments_;   // until it is packed
  std::atomic<bool> waits_{false};
};

// What makes Sites of one operator; there is one of it for each, listed when the library is loaded.
struct SiteKind {
  const char* name; // with its overload: `aten::conv2d`, `aten::lstm.input`
  size_t weights;   // which argument must be a weight of the model
  size_t results;
  bool clamps;      // whether a clamp that follows may be part of it
  bool normalises;  // whether a batch normalisation may
  std::unique_ptr<Site> (*make)(std::vector<Step> steps);
  const SiteKind* next;
  bool quantises = false; // floats, by a scale and a zero point
  WeightOf* weight_of = nullptr; // where the argument is an object; null: it is a tensor
  bool pools = false; // images, without weights: `weights` is any argument that is no tensor

  // It takes and gives images, and does not mind where their channels are.
  bool has_images() const { return normalises || pools; }

  // Its results are 8-bit integers, and nothing that follows is part of it.
  bool is_quantised() const { return quantises || name[0] == 'q'; }
};

// The kinds that this library has.
extern const SiteKind* site_kinds;

struct ListedKind {
  explicit ListedKind(SiteKind* kind) {
    kind->next = site_kinds;
    site_kinds = kind;
  }
};

// A tensor that kernels read as it lies: float, strided, on the CPU, not empty.
inline bool is_plain(const at::Tensor& tensor, bool may_be_empty = false) {
  return tensor.defined() && tensor.scalar_type() == at::kFloat &&
      tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.has_storage() &&
      (may_be_empty || tensor.numel() > 0) && !tensor.is_conj() && !tensor.is_neg();
}

// Copies numbers that lie in memory anyhow, in their order.
float* copy_in_order(const float* from, at::IntArrayRef sizes, at::IntArrayRef strides, float* to);

// Whether XNNPACK's kernels may read a little past the tensor's end (XNN_EXTRA_BYTES): in memory that
// PyTorch's allocator gave, which adds as much (c10/core/CPUAllocator.cpp, PostGuardBytes).
inline bool has_room_behind(const at::Tensor& tensor) {
  return tensor.storage().allocator() != nullptr;
}

// A float tensor that nothing has written. Raises c10::Error where it would be beyond all bounds.
at::Tensor empty_float(at::IntArrayRef sizes, at::IntArrayRef strides);

inline float* data_of(const at::Tensor& tensor) {
  return static_cast<float*>(const_cast<void*>(tensor.unsafeGetTensorImpl()->data()));
}

// A tensor of a model's own, or none: undefined for `none`. False where it is neither, or not plain.
bool read_tensor(const c10::IValue& value, at::Tensor* tensor);

// Whether it is a plain vector of so many numbers, side by side, or undefined.
bool is_vector(const at::Tensor& tensor, int64_t size);

} // namespace lta
