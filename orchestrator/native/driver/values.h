// JSON <-> values of the C API.
//
// A value is an object with one key that names its kind:
//   {"none":true} {"bool":b} {"int":n} {"double":x|"nan"|"inf"|"-inf"} {"string":s}
//   {"list":[value...],"element":kind}     "element" only in an empty list read from a file
//   {"tuple":[value...]} {"dict":[[key,value]...]} {"other":true}
//   {"tensor":{"dtype":"float32","shape":[...],"data":base64,"scale":x,"zero_point":n}}
// Tensor data are the elements, little-endian, contiguous, row-major. "scale" and "zero_point" come
// with tensors quantised per tensor; those quantised per channel have
// "axis", "scales" and "zero_points" (values) when written and cannot be read back.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "json.h"
#include "libtorch_app.h"

namespace driver {

struct FreeValue {
  void operator()(lta_value* value) const { lta_value_free(value); }
};
using Handle = std::unique_ptr<lta_value, FreeValue>;

// A call into the C API that failed: its status, text and names.
struct ApiError {
  std::string code;
  std::string text;
  std::string names;

  static ApiError last();
};

// Throws ApiError unless the call succeeded.
void check(lta_status status);
Handle check(lta_value* value);

std::vector<const lta_value*> pointers(const std::vector<Handle>& handles);
// How an input lies in memory. What a tensor in another order than the usual one leaves out is no number.
enum class Layout {
  Usual,
  Part,         // of a tensor that is larger in each dimension
  ChannelsLast, // the same, of one whose second dimension lies closest, where there are three or more
  Nudged,       // as usual, each float the next one, or the one before
};
// A copy of a value whose tensors lie so, those in tuples too; quantised ones and those in lists and
// dictionaries stay as they are, and those without elements.
Handle laid_out(const lta_value* value, Layout layout);
// The items of a list or a tuple.
std::vector<Handle> items_of(const lta_value* value);
std::string string_of(const lta_value* value);

// Throws json::Error for a malformed value, ApiError for one that the library refuses.
Handle read_value(const json::Value& value);
void write_value(json::Writer& out, const lta_value* value);

} // namespace driver
