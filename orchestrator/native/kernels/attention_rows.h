// What attention computes of rows of floats between its two products.
#pragma once

#include <cstdint>

namespace lta {

// Scores of some queries with some keys, row by row; and of each query what was before these keys.
struct Scores {
  float* first;
  int64_t queries, keys;
  int64_t seen; // keys that the first query sees; each next one sees one more
  const float* mask; // null: none
  int64_t mask_row, mask_key; // apart; keys are side by side, or have one mask (0)
  float* most; // the largest score; -inf: none
  float* sum; // of the weights
  float* kept; // is set to what sums and results of keys before are to be multiplied by
};

// Adds the mask, and replaces each score by its weight: exp of what it is below the largest, 0 for
// keys that are not seen.
//
// A NaN is no largest score, but its weight is one, and so is the sum. Where all scores are -inf, all
// weights are 0.
void weigh(const Scores& of);

// Each row times its factor.
void scale_rows(float* to, int64_t apart, int64_t rows, int64_t size, const float* factors);

} // namespace lta
