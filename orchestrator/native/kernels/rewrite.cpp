// Finds the places in a module's bytecode where a Site may take over: see module_sites.h.
//
// Way: for every method, a forward data flow over its instructions says of each value on the stack
// and in each register whether it may be the model's own (an attribute, a constant, a view of one),
// whether it is that for certain, and which Site's result it may be. From it follow
//   - whether an operator writes to what is the model's own: then no weight is packed;
//   - of which places all that a Site would keep, weights and biases, is the model's own: only those
//     become Sites, for what is not is compared by its address, and others may write to it;
//   - which Sites must give their results in the usual order in memory (contiguous): those whose
//     result reaches an operator, or a caller, that might look at it;
//   - which weights nothing but Sites reads: their memory is given back once they are packed
//     (model_memory.h);
//   - which Sites take the same in every run but their inputs: they are packed together.
// What is not understood ends the matter: the method stays as it is.
#include "module_sites.h"
#include "packed_memory.h"
#include "spares.h"
#include "../capi/left_out.h"
#include "../capi/model_memory.h"
#include "xnnpack_operator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/dynamic_type.h>
#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/runtime/instruction.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/runtime/vararg_functions.h>

namespace lta {

const SiteKind* site_kinds = nullptr;

bool xnnpack_is_ready() {
  static const bool ready = xnn_initialize(memory_for_packing()) == xnn_status_success;
  return ready;
}

at::Tensor empty_float(at::IntArrayRef sizes, at::IntArrayRef strides) {
  // PyTorch does not check for overflow in mobile builds, and a model may pad without end.
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    TORCH_CHECK(size >= 0 && !__builtin_mul_overflow(elements, size, &elements) &&
                    elements <= int64_t(1) << 40,
                "a result is too large");
  }
  return spare(sizes, strides, elements, at::kFloat);
}

float* copy_in_order(const float* from, at::IntArrayRef sizes, at::IntArrayRef strides, float* to) {
  if (sizes.empty()) {
    *to = *from;
    return to + 1;
  }
  for (int64_t i = 0; i < sizes[0]; ++i, from += strides[0]) {
    if (sizes.size() == 1) {
      *to++ = *from;
    } else {
      to = copy_in_order(from, sizes.slice(1), strides.slice(1), to);
    }
  }
  return to;
}

bool read_tensor(const c10::IValue& value, at::Tensor* tensor) {
  if (value.isTensor()) {
    *tensor = value.toTensor();
    return is_plain(*tensor);
  }
  return value.isNone();
}

bool is_vector(const at::Tensor& tensor, int64_t size) {
  return !tensor.defined() ||
      (tensor.dim() == 1 && tensor.size(0) == size && tensor.is_contiguous());
}

// ---- Sites ----

namespace {

// How often weights may be others than last time before a Site leaves them to the model's operators.
constexpr int kPatience = 4;

const c10::IValue kNone;

bool read_number(const c10::IValue& value, float* number) {
  if (value.isDouble()) {
    *number = float(value.toDouble());
  } else if (value.isInt()) {
    *number = float(value.toInt());
  } else {
    return value.isNone();
  }
  return !std::isnan(*number);
}

// Flat: a call to each `toInt` of PyTorch 2, which asks what kind of integer it is, was 1 % of a run.
[[gnu::flatten]] bool is_same_item(const c10::IValue& one, const c10::IValue& other) {
  if (one.isTensor()) {
    return other.isTensor() &&
        one.toTensor().unsafeGetTensorImpl() == other.toTensor().unsafeGetTensorImpl();
  }
  if (one.isDouble()) {
    return other.isDouble() && one.toDouble() == other.toDouble();
  }
  if (one.isInt()) {
    return other.isInt() && one.toInt() == other.toInt();
  }
  if (one.isBool()) {
    return other.isBool() && one.toBool() == other.toBool();
  }
  if (one.isObject()) {
    return other.isObject() && &one.toObjectRef() == &other.toObjectRef();
  }
  return one.isNone() && other.isNone();
}

bool is_same(const c10::IValue& one, const c10::IValue& other) {
  if (one.isList() && other.isList()) {
    const auto left = one.toListRef(), right = other.toListRef();
    return left.size() == right.size() &&
        std::equal(left.begin(), left.end(), right.begin(), is_same_item);
  }
  return is_same_item(one, other);
}

// A value to compare others with: of a list its items, as a model may give it others.
c10::IValue kept(const c10::IValue& value) {
  return value.isList() ? c10::IValue(value.toList().copy()) : value;
}

// weight_of: what weights an object has; null: none that is known
Block* block_of(const c10::IValue& value, WeightOf* weight_of = nullptr) {
  at::Tensor tensor;
  if (value.isTensor()) {
    tensor = value.toTensor();
  } else if (value.isObject() && weight_of != nullptr) {
    tensor = weight_of(value);
  }
  return tensor.defined() && tensor.has_storage() ? lta::block_of(tensor.storage().data_ptr())
                                                  : nullptr;
}

// The weights among a call's arguments whose memory may have been given back. As long as it lives they
// can be read, and other threads that run modules of the same files wait where they do so.
class Weights {
 public:
  Weights(const c10::IValue* first, size_t count, WeightOf* weight_of) {
    for (size_t i = 0; i < count; ++i) {
      Block* const block = block_of(first[i], weight_of);
      if (block != nullptr && block->file && block->file->is_needed) {
        blocks_.push_back(block);
        files_.add(*block->file);
      }
    }
    files_.lock();
    for (Block* block : blocks_) {
      read_again(*block);
    }
  }

  void leave() const {
    for (Block* block : blocks_) {
      lta::leave(*block);
    }
  }

  // For operators that read them at any time.
  void stay() const {
    for (Block* block : blocks_) {
      block->may_leave = false;
    }
  }

 private:
  // A tensor of another model's file may be among them. In the order of their addresses no two threads
  // wait for each other.
  class Files {
   public:
    ~Files() {
      for (size_t i = 0; i < locked_; ++i) {
        each_[i]->mutex.unlock();
      }
    }
    void add(ModelFile& file) {
      ModelFile* next = &file;
      for (ModelFile*& one : each_) {
        if (one == next) {
          return;
        }
        if (std::less<>()(next, one)) {
          std::swap(one, next);
        }
      }
      each_.push_back(next);
    }
    void lock() {
      for (; locked_ < each_.size(); ++locked_) {
        each_[locked_]->mutex.lock();
      }
    }

   private:
    c10::SmallVector<ModelFile*, 2> each_;
    size_t locked_ = 0;
  };

  Files files_;
  c10::SmallVector<Block*, 2> blocks_;
};

} // namespace

const c10::IValue& Arguments::operator[](size_t index) const {
  return index < count_ ? first_[index] : kNone;
}

Site::~Site() { delete shelf_.load(); }

bool Site::read(const c10::IValue* first, Given* given) const {
  const float infinity = std::numeric_limits<float>::infinity();
  given->main = Arguments(first, steps_[0].taken);
  given->least = -infinity;
  given->most = infinity;
  first += steps_[0].taken;
  for (size_t i = 1; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Arguments own(first, step.taken - 1);
    first += step.taken - 1;
    if (step.follower == Follower::kBatchNorm) {
      given->normalised = true;
      given->norm = own;
      continue;
    }
    given->least = step.least;
    given->most = step.most;
    if (step.takes_limits && !(read_number(own[0], &given->least) && read_number(own[1], &given->most))) {
      return false;
    }
  }
  // XNNPACK refuses limits that leave nothing between them.
  return given->least < given->most;
}

Results Site::try_to_compute(const c10::IValue* first, size_t taken) {
  if (misses_ > kPatience || !first[input_].isTensor() ||
      !(any_ || is_plain(first[input_].toTensor(), takes_none))) {
    return {};
  }
  std::unique_ptr<Packed> packed(shelf_.exchange(nullptr));
  bool same = packed != nullptr;
  for (size_t i = 0; same && i < taken; ++i) {
    same = is_input(i) || is_same(packed->kept[i], first[i]);
  }
  if (!same) {
    misses_ += packed && !has_no_weights ? 1 : 0;
    packed = pack_all(first, taken);
    if (!packed) {
      misses_ = kPatience + 1;
      return {};
    }
    pack_others();
  }
  Results results = compute(*packed, Arguments(first + input_, inputs_));
  delete shelf_.exchange(packed.release());
  return results;
}

// Null where it cannot be packed.
std::unique_ptr<Packed> Site::pack_all(const c10::IValue* first, size_t taken) const {
  Given given;
  const Weights weights(first, taken, weight_of);
  auto packed = read(first, &given) && xnnpack_is_ready() ? pack(given) : nullptr;
  if (packed) {
    weights.leave();
    packed->kept.reserve(taken);
    for (size_t i = 0; i < taken; ++i) {
      packed->kept.push_back(is_input(i) ? kNone : kept(first[i]));
    }
  }
  return packed;
}

void Site::pack_with(Site* after, Stack&& arguments) {
  if (after != nullptr) {
    next_ = after->next_;
    after->next_ = this;
  }
  arguments_ = std::move(arguments);
  waits_ = !arguments_.empty();
}

void Site::pack_others() {
  waits_ = false;
  for (Site* site = next_; site != this; site = site->next_) {
    // by one thread; another that runs it meanwhile packs for itself
    if (site->waits_.exchange(false)) {
      const Stack arguments = std::move(site->arguments_);
      delete site->shelf_.exchange(site->pack_all(arguments.data(), arguments.size()).release());
    }
  }
}

void Site::run(Stack& stack) {
  size_t taken = 1; // what a follower takes first is no value on the stack
  for (const Step& step : steps_) {
    taken += step.taken - 1;
  }
  TORCH_CHECK(taken <= stack.size(), "an instruction takes what is not there");
  Results results = try_to_compute(stack.data() + (stack.size() - taken), taken);
  if (!results.empty()) {
    for (size_t i = 0; i < taken; ++i) {
      stack.pop_back();
    }
    for (at::Tensor& result : results) {
      stack.emplace_back(std::move(result));
    }
    return;
  }
  std::vector<c10::IValue> values(std::make_move_iterator(stack.end() - ptrdiff_t(taken)),
                                  std::make_move_iterator(stack.end()));
  stack.resize(stack.size() - taken);
  Weights(values.data(), taken, weight_of).stay();
  auto next = std::make_move_iterator(values.begin());
  for (const Step& step : steps_) {
    const auto own = ptrdiff_t(step.taken - (&step == steps_.data() ? 0 : 1));
    stack.insert(stack.end(), next, next + own);
    next += own;
    step.run(stack);
  }
}

namespace {

using torch::jit::Instruction;
namespace jit = torch::jit;
namespace mobile = torch::jit::mobile;

// ---- What an operator does to values ----

struct Effect {
  size_t taken = 0, given = 0;
  std::vector<char> uses; // of each value that is taken
  bool may_alias = false; // a result may be a view of what is taken, or hold it
  bool is_view = false;   // and the schema says so
};

// What an operator does to a value: writes to a tensor; gives a list or dict other items; and whether
// the value may be a tensor, or hold one.
enum Use : char { kWrites = 1, kFills = 2, kTensor = 4 };

// In mobile builds schemas have dynamic types (ATen/core/type_factory.h).
c10::TypeKind kind_of(const c10::Type& type) {
  return type.kind() == c10::TypeKind::DynamicType
      ? static_cast<const c10::DynamicType&>(type).dynamicKind()
      : type.kind();
}

const c10::FunctionSchema* schema_of(const c10::OperatorName& name) {
  if (auto op = jit::findOperatorFor(name)) {
    return &op->schema();
  }
  auto op = c10::Dispatcher::singleton().findSchema(name);
  return op && op->hasSchema() ? &op->schema() : nullptr;
}

bool is_container(const c10::Type& type) {
  return kind_of(type) == c10::TypeKind::ListType || kind_of(type) == c10::TypeKind::DictType;
}

// Whether a value of a type may be a tensor, or hold one. Numbers and lists of them are compared.
bool holds_tensors(const c10::Type& type) {
  switch (kind_of(type)) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::DeviceObjType:
      return false;
    case c10::TypeKind::ListType:
    case c10::TypeKind::OptionalType:
      return type.containedTypeSize() == 0 || holds_tensors(*type.containedType(0));
    default:
      return true;
  }
}

// What an operator does to memory is in its schema, if it has kernels of its own. Of one that is made
// of others (CompositeImplicitAutograd in native_functions.yaml) the schema may say nothing: `dropout`
// gives its argument back, `batch_norm` writes to its statistics. And of an app's own operators nothing
// is known. All these may give back and write to all that they take, but for those named here: who is
// not among them costs speed, and no right result. In the other known namespaces no operator is made of
// others; those of packed layers (prepacked.cpp) have one kernel for all dispatch keys.

// Made of others, and what they give is new: layers, products, norms, pools, names of other operators.
const char kFresh[] =
    " linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
    " _convolution _convolution_mode thnn_conv2d slow_conv3d matmul linalg_matmul inner outer ger"
    " tensordot lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell embedding_bag"
    " scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_attention"
    " batch_norm _batch_norm_impl_index instance_norm layer_norm group_norm rms_norm _weight_norm"
    " norm_except_dim softmax log_softmax relu6 selu prelu log_sigmoid square cat concat concatenate"
    " hstack vstack dstack column_stack row_stack where max min pad cdist grid_sampler stft istft"
    " adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d avg_pool1d"
    " max_pool1d max_pool2d max_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d"
    " upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d"
    " std var std_mean var_mean subtract multiply divide true_divide negative absolute"
    " __and__ __or__ __xor__ zeros_like one_hot take_along_dim gather index_select ";

// May give back what they take, or views of it, and do not say so, though some have kernels of their own;
// they write to nothing.
const char kPassing[] =
    " dropout feature_dropout alpha_dropout feature_alpha_dropout type_as to_dense atleast_1d"
    " atleast_2d atleast_3d meshgrid broadcast_tensors cartesian_prod chain_matmul conj_physical"
    " unsafe_chunk unsafe_split unsafe_split_with_sizes _reshape_from_tensor _unsafe_view dequantize"
    " channel_shuffle native_channel_shuffle einsum tile sum_to_size ";

// Write to running statistics, unless their sixth argument is False (ATen/native/Normalization.cpp).
// The statistics are the fourth and the fifth.
constexpr size_t kStatistics = 3, kTraining = 5;
const char kNorms[] = " batch_norm native_batch_norm _batch_norm_impl_index instance_norm ";

// Have kernels of their own, and write to a tensor that is no result: the noise, running statistics.
const char kWriting[] = " rrelu_with_noise batch_norm_update_stats ";

// PyTorch's own namespaces, and that of the library whose operators come with the orchestrator.
const char* const kKnown[] = {"aten::", "quantized::", "prepacked::", "torchvision::"};

bool is_among(const std::string& name, const char* names) {
  if (name.compare(0, 6, "aten::") != 0 || name.c_str()[6] == '\0') {
    return false;
  }
  const char* const own = name.c_str() + 6;
  const size_t length = std::strlen(own);
  for (const char* at = names + 1; (at = std::strstr(at, own)) != nullptr; ++at) {
    if (at[-1] == ' ' && at[length] == ' ') {
      return true;
    }
  }
  return false;
}

// What is known of how an operator deals with memory.
enum class Known : char {
  kInterpreters, // one of the interpreter: its schema says what it writes to, and not what lists hold
  kSchema,       // what its schema says
  kPassing,      // and it may give back what it takes
  kNothing,      // it may do everything
};

Known known_of(const c10::OperatorName& name) {
  const auto op = c10::Dispatcher::singleton().findSchema(name);
  if (!op || !op->hasSchema()) {
    return Known::kInterpreters;
  }
  const bool known = std::any_of(std::begin(kKnown), std::end(kKnown), [&](const char* space) {
    return name.name.compare(0, std::strlen(space), space) == 0;
  });
  if (!known || is_among(name.name, kWriting)) {
    return Known::kNothing;
  }
  if (is_among(name.name, kPassing)) {
    return Known::kPassing;
  }
  const auto says = [](const c10::Argument& one) { return one.alias_info() != nullptr; };
  const auto holds = [](const c10::Argument& one) { return holds_tensors(*one.type()); };
  const auto& arguments = op->schema().arguments();
  const auto& results = op->schema().returns();
  // what gives numbers asks a tensor for them: its size
  const bool asks = !results.empty() && std::none_of(results.begin(), results.end(), holds);
  const bool composed = name.name.compare(0, 6, "aten::") == 0 &&
      op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  return composed && !asks && !is_among(name.name, kFresh) &&
          std::none_of(arguments.begin(), arguments.end(), says)
      ? Known::kNothing
      : Known::kSchema;
}

// What a call may do to an argument.
char use_of(const c10::Argument& argument, Known known) {
  const auto* alias = argument.alias_info();
  const bool tensor = holds_tensors(*argument.type());
  const bool changed = alias != nullptr && alias->isWrite();
  const bool filled = changed && known == Known::kInterpreters && is_container(*argument.type());
  const bool written = (changed && !filled) || (tensor && known == Known::kNothing);
  return char((written ? kWrites : 0) | (filled ? kFills : 0) | (tensor ? kTensor : 0));
}

// Whether an operator may write to a tensor. Those of the interpreter without a schema do not.
bool writes(const c10::OperatorName& name) {
  const c10::FunctionSchema* schema = schema_of(name);
  const Known known = known_of(name);
  return is_among(name.name, kNorms) || (schema != nullptr &&
      std::any_of(schema->arguments().begin(), schema->arguments().end(),
                  [&](const c10::Argument& one) { return (use_of(one, known) & kWrites) != 0; }));
}

// False where it is not known.
bool read_effect(const mobile::Code& code, size_t index, Effect* effect) {
  const c10::FunctionSchema* schema = schema_of(code.op_names_[index]);
  if (schema == nullptr || schema->is_vararg() || schema->is_varret()) {
    return false;
  }
  const auto& arguments = schema->arguments();
  const Known known = known_of(code.op_names_[index]);
  const int given = code.operator_input_sizes_[index];
  effect->taken = given < 0 ? arguments.size() : size_t(given);
  if (effect->taken > arguments.size()) {
    return false;
  }
  for (size_t i = 0; i < effect->taken; ++i) {
    // A model that gives fewer arguments gives those with `out` last: which is which is not known.
    const bool out = effect->taken < arguments.size() && arguments.back().is_out();
    effect->uses.push_back(char(use_of(arguments[i], known) | (out ? kWrites : 0)));
  }
  effect->given = schema->returns().size();
  effect->may_alias = known == Known::kPassing || known == Known::kNothing;
  for (const auto& result : schema->returns()) {
    effect->is_view = effect->is_view || result.alias_info() != nullptr;
    // a list that is made of another holds what it does
    effect->may_alias = effect->may_alias || effect->is_view ||
        (known == Known::kInterpreters && holds_tensors(*result.type()));
  }
  return true;
}

// Operators whose result lies in memory as their arguments do, and which do not mind how.
const char kElementwise[] =
    " add add_ sub sub_ mul mul_ div div_ relu relu_ relu6 relu6_ hardtanh hardtanh_ clamp clamp_"
    " sigmoid sigmoid_ hardswish hardswish_ hardsigmoid silu silu_ tanh tanh_ leaky_relu leaky_relu_"
    " elu hardsigmoid_ neg exp abs sqrt dropout dropout_ _add_relu _add_relu_ ";
// Operators that ask a tensor for its sizes or its kind only.
const char kAsking[] = " size dim numel len is_floating_point __is__ __isnot__ ";

// ---- The data flow ----

struct Value {
  bool own = false; // may be the model's
  int site = -1;    // a group of Sites one of whose results it may be
  // Where it is certain which of the model's it is: that attribute or constant.
  const c10::IValue* held = nullptr;
  bool certain = false; // nothing but the model's own, or views or lists of it
  bool fixed = false;   // `held` is it in every run: a constant, or an attribute that no method sets

  // Whether it may be a tensor, or hold one.
  bool may_hold_tensor() const { return held == nullptr || held->isPtrType(); }
};

// Which of a model's weights only Sites read.
class Readers {
 public:
  // Something that is no Site may read the value, or what is in it.
  void add(const c10::IValue& value, int depth = 0) {
    if (Block* const block = block_of(value)) {
      block->read_elsewhere = true;
    } else if (value.isList() && depth < kDeepest) {
      for (const c10::IValue& item : value.toListRef()) {
        add(item, depth + 1);
      }
    } else if (value.isTuple() && depth < kDeepest) {
      for (const c10::IValue& item : value.toTupleRef().elements()) {
        add(item, depth + 1);
      }
    } else if (value.isPtrType() && !value.isTensor() && !value.isString() && !value.isNone()) {
      unknown = true;
    }
  }

  // An object's weights are read by its operators alone.
  void add_weight(const c10::IValue& value, WeightOf* weight_of) {
    if (Block* const block = block_of(value, weight_of)) {
      weights_.push_back(block);
    } else if (weight_of == nullptr || !value.isObject()) {
      add(value);
    }
  }

  void let_leave() const {
    for (Block* block : weights_) {
      if (!unknown && !block->read_elsewhere && block->file) {
        block->may_leave = block->file->is_needed = true;
      }
    }
  }

  // A method gives an attribute another value. object: null where it is not known which; foreign:
  // whether the value may be a tensor that is not the model's own.
  void set(const c10::IValue* object, size_t slot, bool foreign) {
    const size_t address = address_of(object);
    for (const Assignment& known : set_) {
      if (known.object == address && known.slot == slot && known.foreign >= foreign) {
        return;
      }
    }
    set_.push_back({address, slot, foreign});
  }

  size_t assignments() const { return set_.size(); }

  // foreign: whether only to a tensor that is not the model's own
  bool may_be_set(const c10::IValue* object, size_t slot, bool foreign) const {
    const size_t here = address_of(object);
    return std::any_of(set_.begin(), set_.end(), [&](const Assignment& one) {
      const bool it = here == 0 || (one.slot == slot && (one.object == 0 || one.object == here));
      return it && one.foreign >= foreign;
    });
  }

  bool unknown = false; // anything may be read elsewhere
  // A method gives a tensor away that may be the model's own: another call may take it as an input.
  bool gives_own = false;

 private:
  // 0 where it is not known which object it is.
  static size_t address_of(const c10::IValue* object) {
    return object != nullptr && object->isObject() ? reinterpret_cast<size_t>(&object->toObjectRef()) : 0;
  }

  struct Assignment {
    size_t object, slot;
    bool foreign;
  };

  static constexpr int kDeepest = 8;
  std::vector<Block*> weights_;
  std::vector<Assignment> set_;
};

struct State {
  std::vector<Value> stack, registers;
  bool known = false;
};

// Stands for what is not known yet.
const c10::IValue kUnseen;

const c10::IValue kYes(true), kNo(false);

struct Place {
  size_t at = 0; // of the main operator
  const SiteKind* kind = nullptr;
  std::vector<size_t> followers; // where they are
  std::vector<Step> steps;
  // What each argument of each step is in every run: null where that is not certain, kUnseen before
  // the first.
  std::vector<const c10::IValue*> taken;
  std::vector<char> foreign; // of each whether it may be, or hold, a tensor of somebody else
  std::shared_ptr<Site> site;
  size_t last() const { return followers.empty() ? at : followers.back(); }
};

class Method {
 public:
  // self: the module, where the method is its own
  Method(mobile::Code& code, bool inputs_are_own, const c10::IValue* self, Readers* readers)
      : code_(code), inputs_are_own_(inputs_are_own), self_(self), readers_(readers) {}

  // Looks for places. False where the method is not understood.
  bool read() {
    for (const auto& name : code_.op_names_) {
      may_write_ = may_write_ || writes(name);
    }
    effects_.resize(code_.op_names_.size());
    known_.assign(code_.op_names_.size(), 0);
    targets_.assign(code_.instructions_.size() + 1, false);
    for (size_t at = 0; at < code_.instructions_.size(); ++at) {
      const Instruction& inst = code_.instructions_[at];
      if (inst.op == jit::JF || inst.op == jit::JMP || inst.op == jit::LOOP) {
        const int64_t target = int64_t(at) + inst.X;
        if (target < 0 || target >= int64_t(code_.instructions_.size())) {
          return false;
        }
        targets_[size_t(target)] = true;
      }
    }
    find_places();
    const bool known = flow();
    readers_->unknown = readers_->unknown || !known;
    readers_->gives_own = readers_->gives_own || !known;
    return known || (places_.empty() && !may_write_);
  }

  // Where it is not understood: what it may set, of any object.
  void may_set_any() {
    for (const Instruction& inst : code_.instructions_) {
      if (inst.op == jit::SET_ATTR) {
        readers_->set(nullptr, size_t(inst.X), true);
      }
    }
  }

  bool found() const { return !places_.empty(); }

  // Makes the Sites, and says of each place's weight who reads it.
  void make_sites() {
    for (Place& place : places_) {
      std::shared_ptr<Site> site = place.kind->make(std::move(place.steps));
      const c10::IValue* const weight = place.taken[place.kind->weights];
      bool own = true;
      for (size_t i = 0; i < place.taken.size(); ++i) {
        // what was never seen is never run
        own = own && place.taken[i] != &kUnseen && (site->is_input(i) || !place.foreign[i]);
      }
      if (own) {
        place.site = std::move(site);
      }
      if (weight == nullptr || weight == &kUnseen) {
        continue;
      }
      if (own && !place.kind->quantises) {
        readers_->add_weight(*weight, place.kind->weight_of);
      } else {
        readers_->add(*weight);
      }
    }
  }

  // Says to Blocks how many layers read them.
  void count_layers() const {
    for (const Place& place : places_) {
      Block* const block = place.site ? weight_of(place) : nullptr;
      if (block != nullptr) {
        ++block->layers;
      }
    }
  }

  bool may_write() const { return may_write_; }
  bool writes_to_own() const { return writes_to_own_; }

  void rewrite() {
    Site* together = nullptr;
    for (Place& place : places_) {
      if (!place.site) {
        continue;
      }
      const int group = root(int(&place - places_.data()));
      const std::shared_ptr<Site> site = place.site;
      site->weight_of = place.kind->weight_of;
      site->channels_last = !usual_[size_t(group)];
      site->pack_with(together, arguments_of(place, *site));
      together = site.get();
      const size_t last = place.last(), named = size_t(code_.instructions_[place.at].X);
      const auto index = code_.operators_.size();
      code_.op_names_.push_back(code_.op_names_[named]);
      code_.operator_input_sizes_.push_back(code_.operator_input_sizes_[named]);
      code_.operators_.emplace_back([site](Stack& stack) { site->run(stack); });
      // What came before the last one has its arguments stay on the stack.
      Instruction skip = code_.instructions_[place.at];
      skip.op = jit::JMP;
      skip.X = 1;
      skip.N = 0;
      if (place.at != last) {
        code_.instructions_[place.at] = skip;
      }
      for (const size_t at : place.followers) {
        if (at != last) {
          code_.instructions_[at] = skip;
        }
      }
      code_.instructions_[last].X = int32_t(index);
    }
  }

 private:
  static Block* weight_of(const Place& place) {
    const c10::IValue* const value = place.taken[place.kind->weights];
    return value != nullptr ? block_of(*value, place.kind->weight_of) : nullptr;
  }

  // What a Site takes in every run, its inputs left out. Nothing where that is not certain, where its
  // weights stay (it is packed where it runs, for it may never do so), or where packing needs to know
  // how its input is quantised.
  static Stack arguments_of(const Place& place, const Site& site) {
    const Block* const block = weight_of(place);
    if (block == nullptr || !block->may_leave || block->layers > 1 || place.kind->is_quantised()) {
      return {};
    }
    Stack arguments(place.taken.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::IValue* const value = place.taken[i];
      if (!site.is_input(i)) {
        if (value == nullptr || value == &kUnseen) {
          return {};
        }
        arguments[i] = *value;
      }
    }
    return arguments;
  }

  // The arguments of a place's step at an instruction, as they are this time.
  static void remember(Place* place, size_t at, const std::vector<Value>& stack, size_t first,
                       const Effect& effect) {
    const size_t bottom = first;
    size_t to = 0;
    if (at != place->at) {
      ++first; // what a follower takes first is no argument of the Site
      to = place->steps[0].taken;
      for (size_t i = 0; place->followers[i] != at; ++i) {
        to += place->steps[i + 1].taken - 1;
      }
    }
    for (size_t i = first; i < stack.size(); ++i, ++to) {
      const c10::IValue*& known = place->taken[to];
      known = known == &kUnseen || known == stack[i].held ? stack[i].held : nullptr;
      if (!stack[i].certain && (effect.uses[i - bottom] & kTensor) != 0) {
        place->foreign[to] = 1;
      }
    }
  }

  // The list of whole numbers that an instruction makes of constants, or null.
  const c10::IValue* list_of(size_t at, const std::vector<Value>& stack) {
    const Instruction& inst = code_.instructions_[at];
    if (inst.N == 0 || inst.N > stack.size() || size_t(inst.X) >= code_.types_.size() ||
        code_.types_[size_t(inst.X)]->containedTypeSize() == 0) {
      return nullptr;
    }
    Stack made;
    for (size_t i = stack.size() - inst.N; i < stack.size(); ++i) {
      if (stack[i].held == nullptr || !stack[i].held->isInt()) {
        return nullptr;
      }
      made.push_back(*stack[i].held);
    }
    jit::listConstruct(made, *code_.types_[size_t(inst.X)], inst.N);
    c10::IValue& list = lists_[at];
    if (list.isNone()) {
      list = std::move(made[0]);
      return &list;
    }
    return is_same(list, made[0]) ? &list : nullptr;
  }

  const Effect* effect(size_t index) {
    if (index >= known_.size()) {
      return nullptr;
    }
    if (known_[index] == 0) {
      known_[index] = read_effect(code_, index, &effects_[index]) ? 1 : 2;
    }
    return known_[index] == 1 ? &effects_[index] : nullptr;
  }

  // Whether a call is one that no input reaches, of an operator without a schema.
  bool is_left_out(size_t at) {
    const auto index = size_t(code_.instructions_[at].X);
    return index < code_.op_names_.size() && effect(index) == nullptr &&
        lta::is_left_out(name_of(index));
  }

  std::string name_of(size_t index) const { return mobile::operator_str(code_.op_names_[index]); }

  void find_places() {
    place_at_.assign(code_.instructions_.size(), -1);
    follower_of_.assign(code_.instructions_.size(), -1);
    for (size_t at = 0; at < code_.instructions_.size(); ++at) {
      const Instruction& inst = code_.instructions_[at];
      if (inst.op != jit::OP || size_t(inst.X) >= code_.operators_.size()) {
        continue;
      }
      const std::string name = name_of(size_t(inst.X));
      const SiteKind* kind = site_kinds;
      while (kind != nullptr && name != kind->name) {
        kind = kind->next;
      }
      const Effect* own = kind ? effect(size_t(inst.X)) : nullptr;
      if (own == nullptr || own->taken <= kind->weights || own->given != kind->results) {
        continue;
      }
      Place place;
      place.at = at;
      place.kind = kind;
      place.steps.push_back(step_of(size_t(inst.X), own->taken));
      if (kind->clamps) {
        find_followers(&place);
      }
      size_t taken = 1;
      for (const Step& step : place.steps) {
        taken += step.taken - 1;
      }
      place.taken.assign(taken, &kUnseen);
      place.foreign.assign(taken, 0);
      place_at_[at] = int(places_.size());
      at = place.last();
      places_.push_back(std::move(place));
    }
    groups_.assign(places_.size(), 0);
    usual_.assign(places_.size(), false);
    for (size_t i = 0; i < places_.size(); ++i) {
      groups_[i] = int(i);
    }
  }

  Step step_of(size_t index, size_t taken) const {
    Step step;
    step.run = code_.operators_[index];
    step.taken = taken;
    return step;
  }

  // What a follower is, where it can be part of a Site.
  bool read_follower(size_t index, const Place& place, Step* step) {
    const std::string name = name_of(index);
    const float infinity = std::numeric_limits<float>::infinity();
    // nothing else follows a clamp
    if (place.steps.back().follower == Follower::kClamp) {
      return false;
    }
    if (name == "aten::batch_norm") {
      step->follower = Follower::kBatchNorm;
      return place.kind->normalises && place.steps.size() == 1 && step->taken >= 8;
    }
    step->follower = Follower::kClamp;
    step->takes_limits = true;
    step->least = -infinity;
    step->most = infinity;
    if (name == "aten::clamp" || name == "aten::clamp_") {
      return true;
    }
    step->least = -1;
    step->most = 1;
    if (name == "aten::hardtanh" || name == "aten::hardtanh_") {
      return true;
    }
    step->takes_limits = false;
    step->least = 0;
    step->most = infinity;
    if (name == "aten::relu" || name == "aten::relu_") {
      return true;
    }
    step->most = 6;
    return name == "aten::relu6" || name == "aten::relu6_";
  }

  void find_followers(Place* place) {
    size_t above = 0; // values on the stack above the result
    for (size_t at = place->at + 1; at < code_.instructions_.size() && !targets_[at]; ++at) {
      const Instruction& inst = code_.instructions_[at];
      if (inst.op == jit::LOAD || inst.op == jit::LOADC || inst.op == jit::MOVE) {
        ++above;
      } else if (inst.op == jit::GET_ATTR && above > 0) {
      } else if (inst.op == jit::OP) {
        const Effect* effect = this->effect(size_t(inst.X));
        if (effect == nullptr || effect->taken != above + 1 || effect->given != 1) {
          return;
        }
        Step step = step_of(size_t(inst.X), effect->taken);
        if (!read_follower(size_t(inst.X), *place, &step)) {
          return;
        }
        follower_of_[at] = int(places_.size());
        place->followers.push_back(at);
        place->steps.push_back(std::move(step));
        above = 0;
      } else {
        return;
      }
    }
  }

  // ---- Groups of Sites whose results mix ----

  int root(int site) const {
    while (groups_[size_t(site)] != site) {
      site = groups_[size_t(site)];
    }
    return site;
  }

  bool is_quantised(int site) const {
    return site >= 0 && places_[size_t(site)].kind->is_quantised();
  }

  int unite(int one, int other) {
    if (one < 0 || other < 0) {
      return std::max(one, other);
    }
    one = root(one);
    other = root(other);
    const int least = std::min(one, other), most = std::max(one, other);
    groups_[size_t(most)] = least;
    usual_[size_t(least)] = usual_[size_t(least)] || usual_[size_t(most)] ||
        is_quantised(least) != is_quantised(most);
    return least;
  }

  void look_at(const Value& value) {
    if (value.site >= 0) {
      usual_[size_t(root(value.site))] = true;
    }
  }

  void read_by_others(const Value& value) {
    if (value.held != nullptr && !readers_->unknown) {
      readers_->add(*value.held);
    }
  }

  Value merge(const Value& one, const Value& other) {
    const bool same = one.held == other.held;
    if (!same) {
      read_by_others(one);
      read_by_others(other);
    }
    return {one.own || other.own, unite(one.site, other.site), same ? one.held : nullptr,
            one.certain && other.certain, same && one.fixed && other.fixed};
  }

  // ---- One instruction after another ----

  // Of registers, and of values on the stack: a damaged model says any number.
  static constexpr size_t kMost = 1 << 14;
  // Of values in all states: 200 MB.
  static constexpr size_t kMostRemembered = 1 << 23;
  static constexpr size_t kNowhere = SIZE_MAX;

  bool flow() {
    states_.resize(code_.instructions_.size());
    lists_.resize(code_.instructions_.size());
    State entry;
    if (code_.register_size_ > kMost) {
      return false;
    }
    entry.registers.assign(code_.register_size_ + 2, Value{}); // one past the last, which STOREN ends at
    // How many values a method finds on the stack is its first instruction's to say: it stores them.
    // The module itself is one of them.
    const Instruction& first = code_.instructions_[0];
    size_t inputs = first.op == jit::STOREN ? first.N : first.op == jit::STORE ? 1 : 0;
    if (inputs == 0) {
      return false;
    }
    entry.stack.assign(inputs, Value{inputs_are_own_, -1});
    entry.stack[0] = {true, -1, self_, true, self_ != nullptr};
    if (!reach(0, entry)) {
      return false;
    }
    while (!waiting_.empty()) {
      const size_t at = waiting_.back();
      waiting_.pop_back();
      State state = states_[at];
      if (!follow(at, &state)) {
        return false;
      }
    }
    return true;
  }

  // From one instruction to where another way may come in: only there is a state kept and merged. One
  // for each instruction would take a method's length times its registers, in time and in memory.
  bool follow(size_t at, State* state) {
    for (;;) {
      size_t next = kNowhere;
      if (!step(at, state, &next)) {
        return false;
      }
      if (next == kNowhere) {
        return true;
      }
      if (next >= targets_.size() || targets_[next]) {
        return reach(next, *state);
      }
      if (next >= states_.size() || state->stack.size() > kMost) {
        return false;
      }
      at = next;
    }
  }

  bool reach(size_t at, const State& state) {
    if (at >= states_.size() || state.stack.size() > kMost) {
      return false;
    }
    State& there = states_[at];
    if (!there.known) {
      remembered_ += state.stack.size() + state.registers.size();
      if (remembered_ > kMostRemembered) {
        return false;
      }
      there = state;
      there.known = true;
      waiting_.push_back(at);
      return true;
    }
    if (there.stack.size() != state.stack.size()) {
      return false;
    }
    bool changed = false;
    const auto take = [&](std::vector<Value>& to, const std::vector<Value>& from) {
      for (size_t i = 0; i < to.size(); ++i) {
        const Value merged = merge(to[i], from[i]);
        // which of a group's members stands for it is no change
        changed = changed || merged.own != to[i].own || merged.held != to[i].held ||
            merged.certain != to[i].certain || merged.fixed != to[i].fixed ||
            (to[i].site < 0) != (merged.site < 0);
        to[i] = merged;
      }
    };
    take(there.stack, state.stack);
    take(there.registers, state.registers);
    if (changed) {
      waiting_.push_back(at);
    }
    return true;
  }

  static bool pop(State* state, size_t count) {
    if (count > state->stack.size()) {
      return false;
    }
    state->stack.resize(state->stack.size() - count, Value{});
    return true;
  }

  // Takes values away that are looked at, and gives others that may hold them.
  bool look(State* state, size_t taken, size_t given) {
    if (taken > state->stack.size() || given > kMost) {
      return false;
    }
    Value all;
    all.certain = taken > 0;
    for (size_t i = state->stack.size() - taken; i < state->stack.size(); ++i) {
      look_at(state->stack[i]);
      read_by_others(state->stack[i]);
      all.own = all.own || (state->stack[i].own && state->stack[i].may_hold_tensor());
      all.certain = all.certain && state->stack[i].certain;
    }
    pop(state, taken);
    state->stack.resize(state->stack.size() + given, all);
    return true;
  }

  // Apart: inlined, it is 2 KB of `step`.
  __attribute__((noinline)) static void push(std::vector<Value>* stack, const Value& value) {
    stack->push_back(value);
  }

  // next: where it goes on; kNowhere where it does not, or where only `reach` knows.
  bool step(size_t at, State* state, size_t* next) {
    const Instruction inst = code_.instructions_[at];
    auto& stack = state->stack;
    const auto reg = [&](size_t number) -> Value* {
      return number < state->registers.size() ? &state->registers[number] : nullptr;
    };
    Value* named = nullptr;
    switch (inst.op) {
      case jit::OP:
        if (is_left_out(at)) {
          return true; // it raises
        }
        if (!run_operator(at, size_t(inst.X), state)) {
          return false;
        }
        break;
      case jit::LOAD:
      case jit::MOVE:
        if ((named = reg(size_t(inst.X))) == nullptr) {
          return false;
        }
        push(&stack, *named);
        break;
      case jit::STORE:
        if ((named = reg(size_t(inst.X))) == nullptr || stack.empty()) {
          return false;
        }
        *named = stack.back();
        stack.pop_back();
        break;
      case jit::STOREN:
        // registers from X on; a sum of a negative X would come back into them
        if (inst.N > stack.size() || inst.X < 0 || reg(size_t(inst.X) + inst.N) == nullptr) {
          return false;
        }
        for (size_t i = inst.N; i > 0; --i) {
          *reg(size_t(inst.X) + i - 1) = stack.back();
          stack.pop_back();
        }
        break;
      case jit::DROP:
        if (!pop(state, 1)) {
          return false;
        }
        break;
      case jit::DROPR:
        break;
      case jit::LOADC:
        push(&stack, Value{true, -1, nullptr, true});
        if (size_t(inst.X) < code_.constants_.size()) {
          stack.back().held = &code_.constants_[size_t(inst.X)];
          stack.back().fixed = true;
        }
        break;
      case jit::GET_ATTR: {
        const c10::IValue* const attribute = attribute_of(stack, size_t(inst.X));
        const Value object = stack.empty() ? Value{} : stack.back();
        if (!pop(state, 1)) {
          return false;
        }
        const auto slot = size_t(inst.X);
        const bool certain = object.certain && !readers_->may_be_set(object.held, slot, true);
        const bool fixed = object.fixed && attribute != nullptr &&
            !readers_->may_be_set(object.held, slot, false);
        push(&stack, Value{true, -1, attribute, certain, fixed});
        break;
      }
      case jit::SET_ATTR:
        readers_->unknown = true;
        if (stack.size() >= 2) {
          readers_->set(stack[stack.size() - 2].held, size_t(inst.X),
                        stack.back().may_hold_tensor() && !stack.back().certain);
        }
        if (!look(state, 2, 0)) {
          return false;
        }
        break;
      case jit::JF:
        // a branch that is never taken counts for nothing, such as one of training
        if (const c10::IValue* const condition = stack.empty() ? nullptr : known(stack.back())) {
          if (condition->isBool()) {
            *next = at + size_t(condition->toBool() ? int64_t(1) : inst.X);
            return pop(state, 1);
          }
        }
        *next = at + 1;
        return pop(state, 1) && reach(at + size_t(int64_t(inst.X)), *state);
      case jit::JMP:
        *next = at + size_t(int64_t(inst.X));
        return true;
      case jit::LOOP: {
        // count, limit, condition, carried values; in the body: number, carried; behind: carried
        if (inst.N < 2 || stack.size() < size_t(inst.N) + 1) {
          return false;
        }
        State behind = *state;
        behind.stack.erase(behind.stack.end() - (inst.N + 1), behind.stack.end() - (inst.N - 2));
        *next = at + 1;
        return reach(at + size_t(int64_t(inst.X)), behind);
      }
      case jit::RET:
        readers_->gives_own = readers_->gives_own ||
            std::any_of(stack.begin(), stack.end(),
                        [](const Value& value) { return value.own && value.may_hold_tensor(); });
        return look(state, stack.size(), 0);
      case jit::LIST_CONSTRUCT: {
        const c10::IValue* const list = list_of(at, stack);
        if (!look(state, inst.N, 1)) {
          return false;
        }
        stack.back().held = list;
        break;
      }
      case jit::DICT_CONSTRUCT:
      case jit::NAMED_TUPLE_CONSTRUCT:
        if (!look(state, inst.N, 1)) {
          return false;
        }
        break;
      case jit::TUPLE_CONSTRUCT:
      case jit::FORMAT:
        if (!look(state, size_t(inst.X), 1)) {
          return false;
        }
        break;
      case jit::LIST_UNPACK:
        if (!look(state, 1, size_t(inst.X))) {
          return false;
        }
        break;
      case jit::TUPLE_SLICE:
        if (!look(state, 1, 1)) {
          return false;
        }
        break;
      case jit::TUPLE_INDEX:
      case jit::DICT_INDEX:
        if (!look(state, 2, 1)) {
          return false;
        }
        break;
      case jit::__IS__:
      case jit::__ISNOT__: {
        const Value result = is_none(stack, inst.op == jit::__ISNOT__);
        if (!pop(state, 2)) {
          return false;
        }
        push(&stack, result);
        break;
      }
      case jit::__NOT__: {
        const Value result = negated(stack);
        if (!pop(state, 1)) {
          return false;
        }
        push(&stack, result);
        break;
      }
      case jit::DTYPE:
        if (!stack.empty() && is_quantised(stack.back().site)) {
          look_at(stack.back());
        }
        [[fallthrough]];
      case jit::DEVICE:
      case jit::DIM:
      case jit::IS_CUDA:
      case jit::ISINSTANCE:
        if (!pop(state, 1)) {
          return false;
        }
        push(&stack, Value{});
        break;
      case jit::NUM_TO_TENSOR:
        if (!look(state, 1, 1)) {
          return false;
        }
        break;
      case jit::TO_LIST:
        if (!look(state, 3, 1)) {
          return false;
        }
        break;
      case jit::UN_INITIALIZED:
        push(&stack, Value{});
        break;
      case jit::WARN:
        if (!look(state, 2, 0)) {
          return false;
        }
        break;
      case jit::RAISE_EXCEPTION:
        return look(state, 2, 0);
      default:
        return false;
    }
    *next = at + 1;
    return true;
  }

  // What a value is in every run; null where it may be something else.
  static const c10::IValue* known(const Value& value) { return value.fixed ? value.held : nullptr; }

  static Value truth(bool is) { return {false, -1, is ? &kYes : &kNo, true, true}; }

  // `x is None`, `x is not None`, for the two values on top, where that is the same in every run.
  static Value is_none(const std::vector<Value>& stack, bool negated) {
    if (stack.size() >= 2) {
      const c10::IValue *const one = known(stack[stack.size() - 2]), *const other = known(stack.back());
      if (one != nullptr && other != nullptr && (one->isNone() || other->isNone())) {
        return truth((one->isNone() && other->isNone()) != negated);
      }
    }
    return {};
  }

  static Value negated(const std::vector<Value>& stack) {
    const c10::IValue* const value = stack.empty() ? nullptr : known(stack.back());
    return value != nullptr && value->isBool() ? truth(!value->toBool()) : Value{};
  }

  // Null where it is not known of which object it is one.
  const c10::IValue* attribute_of(const std::vector<Value>& stack, size_t slot) {
    const c10::IValue* const object = stack.empty() ? nullptr : stack.back().held;
    if (object != nullptr && object->isObject() && slot < object->toObjectRef().slots().size()) {
      return &object->toObjectRef().slots()[slot];
    }
    readers_->unknown = true;
    return nullptr;
  }

  // Whether an operator may write to the tensor at `i` of those that it takes, from `first` on.
  static bool writes_to(const Effect& effect, const std::string& name,
                        const std::vector<Value>& stack, size_t first, size_t i) {
    const bool statistic = i - first == kStatistics || i - first == kStatistics + 1;
    if (!statistic || effect.taken <= kTraining || !is_among(name, kNorms)) {
      return (effect.uses[i - first] & kWrites) != 0;
    }
    const c10::IValue *const held = stack[i].held, *const training = stack[first + kTraining].held;
    return !(held != nullptr && held->isNone()) &&
        !(training != nullptr && training->isBool() && !training->toBool());
  }

  // An operator puts something of what it takes into the list or dict at `i`. What is the model's own
  // may then be written to by its name there; and a list of the model's may hold what is not.
  void fill(const std::vector<Value>& stack, size_t first, size_t i, const Effect& effect) {
    for (size_t j = first; j < stack.size(); ++j) {
      if (j != i && (effect.uses[j - first] & kTensor) != 0 && stack[j].may_hold_tensor()) {
        const bool hidden = stack[j].own && !stack[i].own && may_write_;
        writes_to_own_ = writes_to_own_ || hidden || (stack[i].certain && !stack[j].certain);
      }
    }
  }

  bool run_operator(size_t at, size_t index, State* state) {
    if (index >= code_.op_names_.size()) {
      return false;
    }
    const std::string& name = code_.op_names_[index].name;
    Effect unknown;
    const Effect* effect = this->effect(index);
    if (effect == nullptr) {
      // Of the interpreter's own operators without a schema those that models have everywhere.
      if (name == "prim::unchecked_cast" || name == "aten::Bool" || name == "aten::__not__" ||
          name == "prim::NumToTensor" || name == "aten::dim" || name == "prim::is_cuda") {
        unknown.taken = unknown.given = 1;
      } else if (name == "prim::TupleUnpack" && at + 1 < code_.instructions_.size() &&
                 code_.instructions_[at + 1].op == jit::STOREN) {
        unknown.taken = 1;
        unknown.given = code_.instructions_[at + 1].N;
      } else if (name == "prim::RaiseException") {
        unknown.taken = 1;
      } else {
        return false;
      }
      unknown.uses.assign(unknown.taken, kTensor);
      unknown.may_alias = unknown.is_view = true;
      effect = &unknown;
    }
    auto& stack = state->stack;
    if (effect->taken > stack.size()) {
      return false;
    }
    const size_t first = stack.size() - effect->taken;
    const int place = place_at_[at];
    const size_t weight = place >= 0 ? places_[size_t(place)].kind->weights : SIZE_MAX;
    const int part_of = place >= 0 ? place : follower_of_[at];
    if (part_of >= 0) {
      remember(&places_[size_t(part_of)], at, stack, first, *effect);
    }
    Value all;
    all.certain = effect->taken > 0;
    for (size_t i = first; i < stack.size(); ++i) {
      writes_to_own_ = writes_to_own_ || (writes_to(*effect, name, stack, first, i) && stack[i].own);
      if ((effect->uses[i - first] & kFills) != 0) {
        fill(stack, first, i, *effect);
      }
      if (i - first != weight) { // of a place's weight `make_sites` says it
        read_by_others(stack[i]);
      }
      all.own = all.own || (stack[i].own && (effect->uses[i - first] & kTensor) != 0);
      all.certain = all.certain && (stack[i].certain || (effect->uses[i - first] & kTensor) == 0);
      all.site = unite(all.site, stack[i].site);
    }
    Value result;
    if (name == "aten::__is__" || name == "aten::__isnot__") {
      result = is_none(stack, name == "aten::__isnot__");
    } else if (name == "aten::__not__") {
      result = negated(stack);
    }
    result.own = effect->may_alias && all.own;
    result.certain = effect->is_view && all.certain;
    if (place >= 0) {
      const Place& found = places_[size_t(place)];
      for (size_t i = first + 1; i < stack.size(); ++i) {
        look_at(stack[i]); // an input may have its channels last, nothing else
      }
      const bool reads_any = found.kind->has_images() || found.kind->is_quantised();
      if (reads_any) {
        result.site = place;
      }
      if (!reads_any || found.kind->quantises ||
          (found.kind->pools && is_quantised(stack[first].site))) {
        look_at(stack[first]); // a linear or a recurrent layer reads its input as it lies
      }
    } else if (is_among(name, kElementwise) && !is_quantised(all.site)) {
      result.site = all.site;
    } else if (follower_of_[at] >= 0) {
      result.site = all.site; // batch_norm that is part of a Site
    } else if (!is_among(name, kAsking)) {
      look_at(all);
    }
    pop(state, effect->taken);
    stack.resize(stack.size() + effect->given, result);
    return true;
  }

  mobile::Code& code_;
  const bool inputs_are_own_;
  const c10::IValue* const self_;
  Readers* const readers_;
  std::vector<Effect> effects_;
  std::vector<char> known_; // of effects_: 0 not asked yet, 1 known, 2 not to be known
  std::vector<char> targets_; // of each instruction whether a jump may end there
  std::vector<Place> places_;
  std::vector<int> place_at_;
  std::vector<int> follower_of_; // which place an instruction is a follower in, or -1
  Stack lists_; // that instructions make of constants
  std::vector<int> groups_;
  std::vector<char> usual_; // of each group whether its results must be in the usual order
  std::vector<State> states_;
  std::vector<size_t> waiting_;
  size_t remembered_ = 0;
  bool may_write_ = false, writes_to_own_ = false;
};

// A module, with what its class is called where it has a name.
struct Subject {
  mobile::Module& module;
  c10::IValue self;
  c10::optional<c10::QualifiedName> name;

  bool has(const mobile::Function& function) const {
    return name && function.qualname().prefix() == name->qualifiedName();
  }
};

bool calls_methods(const Subject& of) {
  for (const auto& function : of.module.compilation_unit().methods()) {
    if (of.name && !of.has(*function)) {
      continue;
    }
    for (const Instruction& inst : function->get_code().instructions_) {
      if (inst.op == jit::CALL || inst.op == jit::INTERFACE_CALL) {
        return true;
      }
    }
  }
  return false;
}

// The methods in which places were found, all read. False where a weight may be written to.
bool read_methods(const Subject& of, bool calls, Readers* readers, std::list<Method>* understood) {
  for (const auto& function : of.module.compilation_unit().methods()) {
    const bool own = of.has(*function);
    if (of.name && !own && !calls) {
      continue; // one of a layer's class, such as __setstate__: loading was all that it is for
    }
    mobile::Code& code = function->get_code();
    if (!code.initialized || code.instructions_.empty()) {
      readers->unknown = true;
      continue;
    }
    const bool inputs_are_own = calls || readers->gives_own;
    understood->emplace_back(code, inputs_are_own, own ? &of.self : nullptr, readers);
    Method& method = understood->back();
    const bool read = method.read();
    if (!read) {
      method.may_set_any();
    }
    readers->unknown = readers->unknown || !read;
    if (method.writes_to_own() || (!read && method.may_write())) {
      return false;
    }
    if (!read || !method.found()) {
      understood->pop_back();
    }
  }
  return true;
}

constexpr int kMostPasses = 8;

void prepare(mobile::Module& module) {
  const c10::IValue self(module._ivalue());
  const Subject subject{module, self, self.toObjectRef().type()->name()};
  const bool calls = calls_methods(subject);
  Readers readers;
  readers.unknown = calls || Loading::current == nullptr || !Loading::current->has_blocks;
  std::list<Method> understood;
  // again where methods set attributes or give away what is the model's own, which is known only then;
  // what they set makes more reachable
  size_t assignments = 0;
  bool gives_own = false;
  int passes = 0;
  do {
    assignments = readers.assignments();
    gives_own = readers.gives_own;
    understood.clear();
    if (passes++ == kMostPasses || !read_methods(subject, calls, &readers, &understood)) {
      return;
    }
  } while (readers.assignments() != assignments || readers.gives_own != gives_own);
  for (Method& method : understood) {
    method.make_sites();
  }
  readers.let_leave();
  for (const Method& method : understood) {
    method.count_layers();
  }
  for (Method& method : understood) {
    method.rewrite();
  }
}

struct Start {
  Start() { prepare_module = prepare; }
} start;

} // namespace
} // namespace lta
