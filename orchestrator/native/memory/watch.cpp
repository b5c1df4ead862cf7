// See watch.h.
#include "watch.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/mobile/module.h>

#include "handles.h"
#include "heap.h"

namespace memory {

namespace {

namespace mobile = torch::jit::mobile;
using torch::jit::Instruction;

// The blocks of a peak that are written one by one.
constexpr size_t kMostBlocks = 40;
// Values in lists and tuples that are looked at, for each value.
constexpr size_t kMostItems = 64;

struct Called {
  size_t function, instruction;
  std::string name;
};
struct Tensor {
  std::string dtype;
  std::vector<int64_t> shape;
};

// Numbered from 1.
std::vector<Called> places;
std::vector<Tensor> tensors;

// ---- The module's bytecode ----

// `get_code` is not inline, and the library exports the C API alone. An explicit instantiation may
// name what is private.
template <mobile::Code mobile::Function::*member>
struct Reading {
  friend mobile::Code& code_of(mobile::Function& function) { return function.*member; }
};
mobile::Code& code_of(mobile::Function& function);
template struct Reading<&mobile::Function::code_>;

// A value as the C API takes it, for as long as both are there.
class Borrowed {
 public:
  explicit Borrowed(const c10::IValue& value) {
    std::memset(room_, 0, sizeof room_);
    std::memcpy(room_, static_cast<const void*>(&value), sizeof value);
  }
  const lta_value* get() const { return reinterpret_cast<const lta_value*>(room_); }

 private:
  alignas(lta_value) char room_[sizeof(lta_value)];
};

void name_tensor(const lta_value* value) {
  lta_tensor_info info;
  if (lta_tensor_describe(value, &info) == LTA_OK && info.data != nullptr && !is_named(info.data)) {
    tensors.push_back({lta_dtype_name(info.dtype), {info.shape, info.shape + info.ndim}});
    name(info.data, uint32_t(tensors.size()));
  }
}

void name_tensors(const lta_value* value, int depth = 0) {
  const lta_kind kind = lta_value_kind(value);
  if (kind == LTA_KIND_TENSOR) {
    name_tensor(value);
  } else if ((kind == LTA_KIND_LIST || kind == LTA_KIND_TUPLE) && depth < 2) {
    size_t size = 0;
    lta_value_size(value, &size);
    for (size_t i = 0; i < std::min(size, kMostItems); ++i) {
      lta_value* item = nullptr;
      if (lta_value_item(value, i, &item) == LTA_OK) {
        const lta_kind of = lta_value_kind(item);
        const bool goes_on = of == LTA_KIND_TENSOR || of == LTA_KIND_LIST || of == LTA_KIND_TUPLE;
        if (goes_on) {
          name_tensors(item, depth + 1);
        }
        lta_value_free(item);
        if (!goes_on) { // a list of numbers
          break;
        }
      }
    }
  }
}

bool is_running = false;

void name_all(const mobile::Stack& stack) {
  count(false);
  for (const c10::IValue& value : stack) {
    name_tensors(Borrowed(value).get());
  }
  count(true);
}

// Without anything that would have to be done when an exception passes: it is the library's, and so is
// what it is caught by. The next operator says its own place.
void run(mobile::Code& code, size_t index, Place place, mobile::Stack& stack) {
  const Place caller = at(place);
  if (is_running) {
    name_all(stack);
  }
  code.operators_[index](stack);
  if (is_running) {
    name_all(stack);
  }
  at(caller);
}

void watch(mobile::Code& code, size_t function) {
  for (size_t i = 0; i < code.instructions_.size(); ++i) {
    Instruction& inst = code.instructions_[i];
    const auto index = size_t(inst.X);
    if ((inst.op != torch::jit::OP && inst.op != torch::jit::OPN) || index >= code.operators_.size() ||
        index >= code.op_names_.size() || !code.operators_[index]) {
      continue;
    }
    const c10::OperatorName name = code.op_names_[index];
    places.push_back(
        {function, i, name.overload_name.empty() ? name.name : name.name + "." + name.overload_name});
    const auto place = Place(places.size());
    inst.X = int32_t(code.operators_.size());
    code.op_names_.push_back(name);
    code.operator_input_sizes_.push_back(
        index < code.operator_input_sizes_.size() ? code.operator_input_sizes_[index] : -1);
    code.operators_.emplace_back(
        [&code, index, place](mobile::Stack& stack) { run(code, index, place, stack); });
  }
}

// ---- What is told ----

struct Run {
  std::string method;
  int64_t index;
  bool again;
  bool ended = false;
  size_t before = 0, inputs = 0, of_model = 0, of_runs = 0;
  uint32_t phase = 0;
  Peak peak;
  std::unordered_set<uint64_t> stays; // blocks of its own, by their numbers
};

size_t bytes_of(const lta_value* value) {
  lta_tensor_info info;
  const lta_kind kind = lta_value_kind(value);
  if (kind == LTA_KIND_TENSOR) {
    return lta_tensor_describe(value, &info) == LTA_OK ? info.nbytes : 0;
  }
  size_t bytes = 0, size = 0;
  if (kind == LTA_KIND_LIST || kind == LTA_KIND_TUPLE) {
    lta_value_size(value, &size);
    for (size_t i = 0; i < size; ++i) {
      lta_value* item = nullptr;
      if (lta_value_item(value, i, &item) == LTA_OK) {
        bytes += bytes_of(item);
        lta_value_free(item);
      }
    }
  }
  return bytes;
}

class Watcher : public driver::Observer {
 public:
  void before_load() override {
    library_ = held().all();
    begin();
    loading_ = phase();
    count(true);
  }

  void loaded(lta_module* module) override {
    count(false);
    loaded_ = held();
    load_peak_ = peak().bytes;
    size_t function = 0;
    for (const auto& one : module->module.compilation_unit().methods()) {
      watch(code_of(*one), function++);
    }
  }

  void saw(const lta_value* value) override {
    if (!is_result_) {
      inputs_ += bytes_of(value);
    }
    is_result_ = false;
  }

  void run_begins(const std::string& method, int64_t index, bool again) override {
    settle();
    if (!again) {
      inputs_of_call_ = std::exchange(inputs_, 0);
    }
    runs_.push_back({method, index, again});
    runs_.back().before = held().all();
    runs_.back().inputs = inputs_of_call_;
    begin();
    runs_.back().phase = phase();
    is_running = true;
    count(true);
  }

  void run_ended(bool ended) override {
    count(false);
    is_running = false;
    at(0);
    runs_.back().ended = ended;
    runs_.back().peak = peak();
    is_result_ = ended && !runs_.back().again;
  }

  void unloading() override { settle(); }

  void write(json::Writer& out) override {
    count(false);
    out.key("memory").open('{').key("library").integer(int64_t(library_));
    out.key("loaded").open('{').key("heap").integer(of_model(loaded_.heap, loaded_.all()));
    out.key("mapped").integer(int64_t(loaded_.mapped)).key("peak").integer(besides(load_peak_)).close('}');
    out.key("runs").open('[');
    for (const Run& run : runs_) {
      write_run(out, run);
    }
    out.close(']').close('}');
  }

 private:
  int64_t besides(size_t bytes) const { return int64_t(bytes) - int64_t(library_); }
  int64_t of_model(size_t heap, size_t all) const { return besides(all) - int64_t(all - heap); }

  // The last run's result is freed by now.
  void settle() {
    if (runs_.empty()) {
      return;
    }
    Run& last = runs_.back();
    last.of_model = last.of_runs = 0;
    for (const Block& block : blocks_since(loading_)) {
      (block.phase == loading_ ? last.of_model : last.of_runs) += block.bytes;
      if (block.phase == last.phase) {
        last.stays.insert(block.born);
      }
    }
  }

  const char* origin(const Block& block, const Run& run) const {
    return block.phase == run.phase ? "run" : block.phase == loading_ ? "model" : "earlier";
  }

  void write_run(json::Writer& out, const Run& run) const {
    out.open('{').key("method").string(run.method).key("index").integer(run.index);
    out.key("again").boolean(run.again).key("ended").boolean(run.ended);
    out.key("before").integer(besides(run.before)).key("inputs").integer(int64_t(run.inputs));
    out.key("peak").integer(besides(run.peak.bytes)).key("at");
    write_place(out, run.peak.place);
    out.key("after").open('{').key("model").integer(int64_t(run.of_model));
    out.key("runs").integer(int64_t(run.of_runs)).close('}');
    std::vector<Block> blocks;
    size_t model = 0, earlier = 0, own = 0;
    for (const Block& block : run.peak.blocks) {
      if (block.phase >= loading_) {
        blocks.push_back(block);
        (block.phase == run.phase       ? own
             : block.phase == loading_ ? model
                                       : earlier) += block.bytes;
      }
    }
    out.key("of").open('{').key("model").integer(int64_t(model)).key("earlier").integer(int64_t(earlier));
    out.key("run").integer(int64_t(own)).close('}');
    std::sort(blocks.begin(), blocks.end(), [](const Block& one, const Block& other) {
      return one.bytes != other.bytes ? one.bytes > other.bytes : one.born < other.born;
    });
    const size_t shown = std::min(blocks.size(), kMostBlocks);
    out.key("blocks").open('[');
    size_t rest = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      i < shown ? write_block(out, blocks[i], run) : void(rest += blocks[i].bytes);
    }
    out.close(']').key("others").open('{').key("blocks").integer(int64_t(blocks.size() - shown));
    out.key("bytes").integer(int64_t(rest)).close('}').close('}');
  }

  void write_block(json::Writer& out, const Block& block, const Run& run) const {
    out.open('{').key("bytes").integer(int64_t(block.bytes)).key("of").string(origin(block, run));
    out.key("stays").boolean(block.phase != run.phase || run.stays.count(block.born) != 0);
    out.key("at");
    write_place(out, block.place);
    const Tensor* const tensor = block.tensor == 0 ? nullptr : &tensors[block.tensor - 1];
    out.key("dtype");
    tensor == nullptr ? out.null() : out.string(tensor->dtype);
    out.key("shape");
    if (tensor == nullptr) {
      out.null();
    } else {
      out.open('[');
      for (const int64_t size : tensor->shape) {
        out.integer(size);
      }
      out.close(']');
    }
    out.close('}');
  }

  static void write_place(json::Writer& out, Place place) {
    if (place == 0) {
      out.null();
      return;
    }
    const Called& of = places[place - 1];
    out.open('{').key("function").integer(int64_t(of.function));
    out.key("instruction").integer(int64_t(of.instruction));
    out.key("operator").string(of.name).close('}');
  }

  size_t library_ = 0, load_peak_ = 0, inputs_ = 0, inputs_of_call_ = 0;
  uint32_t loading_ = 0;
  bool is_result_ = false; // what is seen next
  Held loaded_;
  std::vector<Run> runs_;
};

} // namespace

driver::Observer& observer() {
  static Watcher watcher;
  return watcher;
}

} // namespace memory
