// What tests/unit/native/test_native_recurrent.py runs: steps of recurrent layers, at the level that it chooses.
#include "recurrent_steps.cpp"

extern "C" {

void choose(int wide) { chosen = {wide != 0, wide != 0, false, false}; }

int64_t padded(int64_t columns) { return lta::padded(columns); }
int64_t packed_size(int64_t columns, int64_t depth) { return lta::packed_size(columns, depth); }
void pack_tiles(const float* weights, int64_t columns, int64_t depth, float* to) {
  lta::pack_tiles(weights, columns, depth, to);
}
void multiply(const float* from, int64_t from_stride, const float* weights, const float* start,
              int64_t start_stride, float* to, int64_t to_stride, int64_t rows, int64_t depth,
              int64_t first, int64_t last) {
  lta::multiply_tiles(
      {from, from_stride, weights, start, start_stride, to, to_stride, rows, depth}, first, last);
}
void lstm_step(const float* gates, float* cell, float* hidden, int64_t size) {
  lta::lstm_step(gates, cell, hidden, size);
}
void gru_step(const float* of_input, const float* of_hidden, const float* before, float* hidden,
              int64_t size) {
  lta::gru_step(of_input, of_hidden, before, hidden, size);
}
}
