// Recurrent layers: `lstm`, `gru` and their cells, with weights that are packed once.
//
// Way: of some steps at a time, the input's share of all gates in one product; then step by step the
// hidden state's share, and the cell. Projections, dropout and other dtypes are left to PyTorch.
#include "module_sites.h"
#include "pool.h"
#include "recurrent_steps.h"

#include <algorithm>
#include <cstring>

namespace lta {
namespace {

using at::Tensor;
using c10::IValue;

enum class Kind : uint8_t { kLstm, kGru };

// One direction of one layer.
struct Cell {
  Tensor of_input, of_hidden, input_bias, hidden_bias; // biases may be undefined
};

// Rows that lie apart: of step t and of the batch's b, at `data + t * step + b * row`.
struct Sequence {
  float* data;
  int64_t step, row;
  float* at(int64_t time) const { return data + time * step; }
};

struct PackedCell {
  const float* of_input;    // packed weights
  const float* of_hidden;
  const float* start;       // what the input's share starts from: an LSTM's both biases
  const float* hidden_start; // the hidden state's share of a GRU
};

struct PackedCells : Packed {
  Kind kind = Kind::kLstm;
  bool sequence = false, batch_first = false;
  int64_t directions = 1, in = 0, size = 0, width = 0; // width: of a row of gates, whole tiles
  std::vector<PackedCell> cells;
  std::vector<float> memory;
};

// What a call says.
struct Recurrent {
  bool sequence = false, batch_first = false;
  int64_t layers = 1, directions = 1;
  std::vector<Cell> cells;
};

bool read_weight(const IValue& value, Tensor* weight) {
  return value.isTensor() && read_tensor(value, weight) && weight->dim() == 2 &&
      weight->is_contiguous();
}

// lstm.input, gru.input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
// batch_first)
bool read_sequence(const Arguments& given, Recurrent* found) {
  if (!given[2].isList() || !given[3].isBool() || !given[4].isInt() || !given[5].isDouble() ||
      !given[6].isBool() || !given[7].isBool() || !given[8].isBool()) {
    return false;
  }
  const auto params = given[2].toListRef();
  const size_t each = given[3].toBool() ? 4 : 2;
  found->sequence = true;
  found->batch_first = given[8].toBool();
  found->layers = given[4].toInt();
  found->directions = given[7].toBool() ? 2 : 1;
  const bool drops = given[6].toBool() && given[5].toDouble() != 0;
  if (drops || params.empty() || params.size() % each != 0 ||
      found->layers != int64_t(params.size() / each) / found->directions ||
      params.size() / each % size_t(found->directions) != 0) {
    return false;
  }
  for (size_t i = 0; i < params.size(); i += each) {
    Cell cell;
    if (!read_weight(params[i], &cell.of_input) || !read_weight(params[i + 1], &cell.of_hidden) ||
        (each == 4 && (!read_tensor(params[i + 2], &cell.input_bias) ||
                       !read_tensor(params[i + 3], &cell.hidden_bias)))) {
      return false;
    }
    found->cells.push_back(std::move(cell));
  }
  return true;
}

// lstm_cell, gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh)
bool read_cell(const Arguments& given, Recurrent* found) {
  Cell cell;
  const bool good = read_weight(given[2], &cell.of_input) &&
      read_weight(given[3], &cell.of_hidden) && read_tensor(given[4], &cell.input_bias) &&
      read_tensor(given[5], &cell.hidden_bias);
  found->cells.push_back(std::move(cell));
  return good;
}

// Whether rows of the last dimension have their numbers side by side.
bool has_rows(const Tensor& tensor) {
  return tensor.size(-1) == 1 || tensor.stride(-1) == 1;
}

using Read = bool (*)(const Arguments& given, Recurrent* found);

class RecurrentSite : public Site {
 public:
  RecurrentSite(std::vector<Step> steps, Kind kind, Read read)
      : Site(std::move(steps), /*input=*/0, /*inputs=*/2), kind_(kind), read_(read) {}

 protected:
  std::unique_ptr<Packed> pack(const Given& given) const override {
    Recurrent of;
    if (!read_(given.main, &of)) {
      return nullptr;
    }
    const int64_t in = of.cells[0].of_input.size(1), size = of.cells[0].of_hidden.size(1);
    const int64_t columns = (kind_ == Kind::kLstm ? 4 : 3) * size;
    int64_t floats = 0;
    for (size_t i = 0; i < of.cells.size(); ++i) {
      const Cell& cell = of.cells[i];
      const int64_t depth = int64_t(i) < of.directions ? in : of.directions * size;
      if (cell.of_input.size(0) != columns || cell.of_input.size(1) != depth ||
          cell.of_hidden.size(0) != columns || cell.of_hidden.size(1) != size ||
          !is_vector(cell.input_bias, columns) || !is_vector(cell.hidden_bias, columns)) {
        return nullptr;
      }
      floats += packed_size(columns, depth + size + 2); // two rows for what sums start from
    }
    auto packed = std::make_unique<PackedCells>();
    packed->kind = kind_;
    packed->sequence = of.sequence;
    packed->batch_first = of.batch_first;
    packed->directions = of.directions;
    packed->in = in;
    packed->size = size;
    packed->width = padded(columns);
    packed->memory.resize(size_t(floats));
    float* next = packed->memory.data();
    for (const Cell& cell : of.cells) {
      packed->cells.push_back(pack_cell(kind_, cell, columns, &next));
    }
    return packed;
  }

  Results compute(Packed& of, const Arguments& inputs) const override {
    const auto& packed = static_cast<const PackedCells&>(of);
    const Tensor& input = inputs[0].toTensor();
    if (input.dim() != (packed.sequence ? 3 : 2) || input.size(-1) != packed.in || !has_rows(input)) {
      return {};
    }
    const int64_t time = packed.batch_first ? 1 : 0;
    Call call{packed, packed.sequence ? input.size(time) : 1,
              packed.sequence ? input.size(1 - time) : input.size(0), {}, nullptr, nullptr, {}, {}};
    const Sequence source = packed.sequence
        ? Sequence{data_of(input), input.stride(time), input.stride(1 - time)}
        : Sequence{data_of(input), 0, input.stride(0)};
    if (!read_states(inputs[1], &call)) {
      return {};
    }
    const int64_t cells = int64_t(packed.cells.size());
    const int64_t all = packed.directions * packed.size, batch = call.batch, steps = call.steps;
    Results results;
    if (packed.sequence) { // as ATen's: step by step, seen as it is asked for
      Tensor output = empty_float({steps, batch, all}, {batch * all, all, 1});
      if (packed.batch_first) {
        const int64_t sizes[3] = {batch, steps, all}, strides[3] = {all, batch * all, 1};
        output.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
      }
      results.push_back(std::move(output));
    }
    for (int i = 0; i < (kind_ == Kind::kLstm ? 2 : 1); ++i) {
      results.push_back(packed.sequence
              ? empty_float({cells, batch, packed.size}, {batch * packed.size, packed.size, 1})
              : empty_float({batch, packed.size}, {packed.size, 1}));
    }
    float* const hidden = data_of(results[packed.sequence ? 1 : 0]);
    call.last_hidden = hidden;
    call.last_cell = kind_ == Kind::kLstm ? data_of(results.back()) : nullptr;
    run(&call, source, {packed.sequence ? data_of(results[0]) : hidden, batch * all, all});
    return results;
  }

 private:
  // Floats of gates that are computed before the steps that take them: what a core's cache holds.
  static constexpr int64_t kAhead = 32 * 1024;

  struct Call {
    const PackedCells& packed;
    int64_t steps, batch;
    Sequence first[2]; // of hidden states and of cells: `step` is from one layer's to the next
    float* last_hidden;
    float* last_cell;
    Tensor gates, hidden_gates;
    int64_t ahead() const {
      return std::min(steps, std::max<int64_t>(1, kAhead / (batch * packed.width)));
    }
  };

  static PackedCell pack_cell(Kind kind, const Cell& cell, int64_t columns, float** next) {
    const auto take = [next](int64_t floats) {
      float* const taken = *next;
      *next += floats;
      return taken;
    };
    const auto pack = [&](const Tensor& weight) {
      float* const to = take(packed_size(columns, weight.size(1)));
      pack_tiles(data_of(weight), columns, weight.size(1), to);
      return to;
    };
    const auto add = [&](const Tensor& bias, float* to) { // to zeros
      for (int64_t i = 0; bias.defined() && i < columns; ++i) {
        to[i] += data_of(bias)[i];
      }
    };
    float* const start = take(padded(columns));
    float* const hidden_start = take(padded(columns));
    add(cell.input_bias, start);
    add(cell.hidden_bias, kind == Kind::kLstm ? start : hidden_start);
    float* const of_input = pack(cell.of_input);
    return {of_input, pack(cell.of_hidden), start, hidden_start};
  }

  static bool read_state(const IValue& value, Call* call, Sequence* state) {
    const PackedCells& packed = call->packed;
    Tensor tensor;
    if (!value.isTensor() || !read_tensor(value, &tensor) ||
        tensor.dim() != (packed.sequence ? 3 : 2) || tensor.size(-1) != packed.size ||
        tensor.size(-2) != call->batch || !has_rows(tensor) ||
        (packed.sequence && tensor.size(0) != int64_t(packed.cells.size()))) {
      return false;
    }
    *state = {data_of(tensor), packed.sequence ? tensor.stride(0) : 0, tensor.stride(-2)};
    return true;
  }

  static bool read_states(const IValue& value, Call* call) {
    if (call->packed.kind == Kind::kGru) {
      return read_state(value, call, &call->first[0]);
    }
    return value.isList() && value.toListRef().size() == 2 &&
        read_state(value.toListRef()[0], call, &call->first[0]) &&
        read_state(value.toListRef()[1], call, &call->first[1]);
  }

  // All layers. `to`: the last one's results.
  static void run(Call* call, Sequence from, const Sequence& to) {
    const PackedCells& packed = call->packed;
    const int64_t size = packed.size, batch = call->batch, all = packed.directions * size;
    call->gates = empty_float({call->ahead(), batch, packed.width}, {batch * packed.width, packed.width, 1});
    if (packed.kind == Kind::kGru) {
      call->hidden_gates = empty_float({batch, packed.width}, {packed.width, 1});
    }
    const size_t layers = packed.cells.size() / size_t(packed.directions);
    Tensor between[2];
    for (size_t layer = 0; layer < layers; ++layer) {
      Sequence target = to;
      if (layer + 1 < layers) {
        Tensor& mine = between[layer % 2];
        if (!mine.defined()) {
          mine = empty_float({call->steps, batch, all}, {batch * all, all, 1});
        }
        target = {data_of(mine), batch * all, all};
      }
      for (int64_t direction = 0; direction < packed.directions; ++direction) {
        const Sequence part = {target.data + direction * size, target.step, target.row};
        const size_t cell = layer * size_t(packed.directions) + size_t(direction);
        run_cell(*call, cell, layer == 0 ? packed.in : all, from, part, direction == 1);
      }
      from = target;
    }
  }

  static void copy_rows(const float* from, int64_t stride, float* to, int64_t rows, int64_t size) {
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(to + row * size, from + row * stride, size_t(size) * sizeof(float));
    }
  }

  // One direction of one layer.
  static void run_cell(const Call& call, size_t index, int64_t depth, const Sequence& from,
                       const Sequence& to, bool backwards) {
    const PackedCells& packed = call.packed;
    const PackedCell& cell = packed.cells[index];
    const int64_t size = packed.size, batch = call.batch, width = packed.width;
    const int64_t each = batch * size;
    const bool lstm = packed.kind == Kind::kLstm;
    float* const gates = data_of(call.gates);
    float* const state = lstm ? call.last_cell + int64_t(index) * each : nullptr;
    if (lstm) {
      copy_rows(call.first[1].at(int64_t(index)), call.first[1].row, state, batch, size);
    }
    const float* before = call.first[0].at(int64_t(index));
    int64_t before_row = call.first[0].row;
    const int64_t ahead = call.ahead();
    for (int64_t done = 0; done < call.steps; done += ahead) {
      const int64_t count = std::min(ahead, call.steps - done);
      const int64_t least = backwards ? call.steps - done - count : done; // the earliest time
      share_of_input(call, cell, depth, {from.at(least), from.step, from.row}, count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t later = backwards ? count - 1 - i : i;
        float* const own = gates + later * batch * width;
        float* const sums = lstm ? own : data_of(call.hidden_gates);
        multiply({before, before_row, cell.of_hidden, lstm ? own : cell.hidden_start,
                  lstm ? width : 0, sums, width, batch, size},
                 width);
        float* const now = to.at(least + later);
        for (int64_t b = 0; b < batch; ++b) {
          if (lstm) {
            lstm_step(own + b * width, state + b * size, now + b * to.row, size);
          } else {
            gru_step(own + b * width, sums + b * width, before + b * before_row, now + b * to.row,
                     size);
          }
        }
        before = now;
        before_row = to.row;
      }
    }
    float* const last = call.last_hidden + int64_t(index) * each;
    if (last != before) { // a cell's result is its last state
      copy_rows(before, before_row, last, batch, size);
    }
  }

  // The input's share of so many steps' gates: as few products as the input's rows allow.
  static void share_of_input(const Call& call, const PackedCell& cell, int64_t depth,
                             const Sequence& from, int64_t steps) {
    const int64_t batch = call.batch, width = call.packed.width;
    float* const gates = data_of(call.gates);
    if (steps >= batch) {
      for (int64_t b = 0; b < batch; ++b) {
        multiply({from.data + b * from.row, from.step, cell.of_input, cell.start, 0,
                  gates + b * width, batch * width, steps, depth},
                 width);
      }
    } else {
      for (int64_t t = 0; t < steps; ++t) {
        multiply({from.at(t), from.row, cell.of_input, cell.start, 0, gates + t * batch * width,
                  width, batch, depth},
                 width);
      }
    }
  }

  // Threads take some tiles each.
  static void multiply(const RowProduct& of, int64_t width) {
    const pthreadpool_t pool = pool_for(double(of.rows) * double(of.depth) * double(width));
    for_ranges(pool, width / kTile, [&](int64_t, int64_t first, int64_t last) {
      multiply_tiles(of, first, last);
    });
  }

  const Kind kind_;
  const Read read_;
};

template <Kind kind, Read read>
std::unique_ptr<Site> make(std::vector<Step> steps) {
  return std::make_unique<RecurrentSite>(std::move(steps), kind, read);
}

SiteKind kinds[] = {
    {"aten::lstm.input", 2, 3, false, false, make<Kind::kLstm, read_sequence>, nullptr},
    {"aten::gru.input", 2, 2, false, false, make<Kind::kGru, read_sequence>, nullptr},
    {"aten::lstm_cell", 2, 2, false, false, make<Kind::kLstm, read_cell>, nullptr},
    {"aten::gru_cell", 2, 1, false, false, make<Kind::kGru, read_cell>, nullptr},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1]), ListedKind(&kinds[2]),
                             ListedKind(&kinds[3])};

} // namespace
} // namespace lta
