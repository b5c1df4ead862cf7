// See values.h. Assumes a little-endian machine, as all targets are.
#include "values.h"

namespace driver {

namespace {

const char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(const std::string& bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = bytes.size() - i;
    const auto byte = [&](size_t k) {
      return k < left ? uint32_t(static_cast<unsigned char>(bytes[i + k])) : 0u;
    };
    const uint32_t word = byte(0) << 16 | byte(1) << 8 | byte(2);
    out += kDigits[word >> 18];
    out += kDigits[word >> 12 & 63];
    out += left > 1 ? kDigits[word >> 6 & 63] : '=';
    out += left > 2 ? kDigits[word & 63] : '=';
  }
  return out;
}

std::string from_base64(const std::string& text) {
  if (text.size() % 4 != 0) {
    throw json::Error("not base64: its length is no multiple of 4");
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t word = 0;
    size_t padding = 0;
    for (size_t k = 0; k < 4; ++k) {
      const char c = text[i + k];
      const char* found = c ? std::strchr(kDigits, c) : nullptr;
      if (c == '=' && i + 4 == text.size() && k >= 2) {
        ++padding;
      } else if (!found || padding) {
        throw json::Error("not base64");
      }
      word = word << 6 | (c == '=' ? 0u : uint32_t(found - kDigits));
    }
    for (size_t k = 0; k < 3 - padding; ++k) {
      out += char(word >> (16 - 8 * k) & 255);
    }
  }
  return out;
}

const char* const kKinds[] = {"none",   "bool", "int",   "double", "string",
                              "tensor", "list", "tuple", "dict",   "other"};

lta_kind kind_named(const json::Value* name) {
  if (!name) {
    return LTA_KIND_OTHER;
  }
  for (int kind = LTA_KIND_NONE; kind <= LTA_KIND_OTHER; ++kind) {
    if (name->string() == kKinds[kind]) {
      return lta_kind(kind);
    }
  }
  throw json::Error("not a kind: " + name->text);
}

lta_dtype dtype_named(const std::string& name) {
  for (int dtype = 0; lta_dtype_name(lta_dtype(dtype)); ++dtype) {
    if (name == lta_dtype_name(lta_dtype(dtype))) {
      return lta_dtype(dtype);
    }
  }
  throw json::Error("not a dtype: " + name);
}

std::vector<Handle> read_items(const json::Value& array) {
  std::vector<Handle> items;
  for (const json::Value& item : array.expect(json::Type::Array, "an array").items) {
    items.push_back(read_value(item));
  }
  return items;
}

Handle read_dict(const json::Value& pairs) {
  std::vector<Handle> keys;
  std::vector<Handle> values;
  for (const json::Value& pair : pairs.expect(json::Type::Array, "an array").items) {
    if (pair.expect(json::Type::Array, "a pair").items.size() != 2) {
      throw json::Error("a dict's entry is not a pair");
    }
    keys.push_back(read_value(pair.items[0]));
    values.push_back(read_value(pair.items[1]));
  }
  return check(lta_dict(LTA_KIND_OTHER, LTA_KIND_OTHER, pointers(keys).data(),
                        pointers(values).data(), keys.size()));
}

Handle read_tensor(const json::Value& value) {
  const lta_dtype dtype = dtype_named(value.at("dtype").string());
  std::vector<int64_t> shape;
  for (const json::Value& size : value.at("shape").expect(json::Type::Array, "a shape").items) {
    shape.push_back(size.integer());
  }
  const std::string data = from_base64(value.at("data").string());
  if (const json::Value* scale = value.find("scale")) {
    return check(lta_tensor_copy_quantized(dtype, shape.size(), shape.data(), data.data(),
                                           data.size(), scale->real(),
                                           value.at("zero_point").integer()));
  }
  return check(lta_tensor_copy(dtype, shape.size(), shape.data(), nullptr, data.data(),
                               data.size()));
}

void write_tensor(json::Writer& out, const lta_value* value) {
  lta_tensor_info info;
  check(lta_tensor_describe(value, &info));
  std::string data(info.nbytes, '\0');
  check(lta_tensor_read(value, &data[0], data.size()));
  out.open('{').key("dtype").string(lta_dtype_name(info.dtype)).key("shape").open('[');
  for (size_t i = 0; i < info.ndim; ++i) {
    out.integer(info.shape[i]);
  }
  out.close(']').key("data").string(to_base64(data));
  double scale = 0;
  int64_t number = 0;
  lta_value* scales = nullptr;
  lta_value* zero_points = nullptr;
  if (!info.is_quantized) {
    // nothing to add
  } else if (lta_tensor_quantization(value, &scale, &number) == LTA_OK) {
    out.key("scale").real(scale).key("zero_point").integer(number);
  } else {
    check(lta_tensor_channel_quantization(value, &number, &scales, &zero_points));
    const Handle scales_owner(scales);
    const Handle zero_points_owner(zero_points);
    out.key("axis").integer(number).key("scales");
    write_value(out, scales);
    out.key("zero_points");
    write_value(out, zero_points);
  }
  out.close('}');
}

void write_items(json::Writer& out, const lta_value* value) {
  out.open('[');
  for (const Handle& item : items_of(value)) {
    write_value(out, item.get());
  }
  out.close(']');
}

void write_entries(json::Writer& out, const lta_value* value) {
  size_t size = 0;
  check(lta_value_size(value, &size));
  out.open('[');
  for (size_t i = 0; i < size; ++i) {
    lta_value* key = nullptr;
    lta_value* item = nullptr;
    check(lta_value_entry(value, i, &key, &item));
    const Handle key_owner(key);
    const Handle item_owner(item);
    out.open('[');
    write_value(out, key);
    write_value(out, item);
    out.close(']');
  }
  out.close(']');
}

Handle same(const lta_value* value) {
  const lta_value* const items[] = {value};
  lta_value* item = nullptr;
  const Handle tuple = check(lta_tuple(items, 1));
  check(lta_value_item(tuple.get(), 0, &item));
  return Handle(item);
}

// The next number, or the one before: of a float's bits, the next whole number.
template <class Bits>
void nudge(std::string& data) {
  for (size_t at = 0; at + sizeof(Bits) <= data.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, &data[at], sizeof bits);
    // neither zero, whose neighbours are no rounding error, nor the largest, infinite or no number
    const Bits most = Bits(Bits(-1) >> 1), size = bits & most;
    if (size > 1 && size < most - most / 64) {
      bits = Bits(bits + (at / sizeof bits * 2654435761u >> 16 & 1 ? 1 : -1));
    }
    std::memcpy(&data[at], &bits, sizeof bits);
  }
}

Handle tensor_nudged(const lta_value* value) {
  lta_tensor_info info;
  check(lta_tensor_describe(value, &info));
  std::string data(info.nbytes, '\0');
  check(lta_tensor_read(value, &data[0], data.size()));
  if (info.dtype == LTA_FLOAT32) {
    nudge<uint32_t>(data);
  } else if (info.dtype == LTA_FLOAT64) {
    nudge<uint64_t>(data);
  } else {
    return same(value);
  }
  return check(lta_tensor_copy(info.dtype, info.ndim, info.shape, nullptr, data.data(),
                               data.size()));
}

Handle tensor_laid_out(const lta_value* value, Layout layout) {
  lta_tensor_info info;
  check(lta_tensor_describe(value, &info));
  if (info.is_quantized || info.nbytes == 0 || info.ndim == 0) {
    return same(value);
  }
  const size_t dims = info.ndim;
  std::string data(info.nbytes, '\0');
  check(lta_tensor_read(value, &data[0], data.size()));
  const bool last = layout == Layout::ChannelsLast && dims > 2;
  std::vector<int64_t> strides(dims);
  int64_t next = last ? info.shape[1] + 1 : 1, span = 1, elements = 1;
  for (size_t dim = dims; dim-- > 0;) {
    const bool closest = last && dim == 1;
    strides[dim] = closest ? 1 : next;
    next *= closest ? 1 : info.shape[dim] + 1;
    span += (info.shape[dim] - 1) * strides[dim];
    elements *= info.shape[dim];
  }
  const size_t each = info.nbytes / size_t(elements);
  std::string spread(size_t(span) * each, '\xff'); // as a float: no number
  for (int64_t i = 0; i < elements; ++i) {
    int64_t at = 0, left = i;
    for (size_t dim = dims; dim-- > 0; left /= info.shape[dim]) {
      at += left % info.shape[dim] * strides[dim];
    }
    std::memcpy(&spread[size_t(at) * each], &data[size_t(i) * each], each);
  }
  return check(lta_tensor_copy(info.dtype, dims, info.shape, strides.data(), spread.data(),
                               spread.size()));
}

} // namespace

Handle laid_out(const lta_value* value, Layout layout) {
  const lta_kind kind = lta_value_kind(value);
  if (kind == LTA_KIND_TENSOR && layout != Layout::Usual) {
    return layout == Layout::Nudged ? tensor_nudged(value) : tensor_laid_out(value, layout);
  }
  if (kind != LTA_KIND_TUPLE) {
    return same(value);
  }
  std::vector<Handle> items;
  for (const Handle& item : items_of(value)) {
    items.push_back(laid_out(item.get(), layout));
  }
  return check(lta_tuple(pointers(items).data(), items.size()));
}

ApiError ApiError::last() {
  return {lta_status_name(lta_last_status()), lta_last_error(), lta_last_error_names()};
}

void check(lta_status status) {
  if (status != LTA_OK) {
    throw ApiError::last();
  }
}

Handle check(lta_value* value) {
  if (!value) {
    throw ApiError::last();
  }
  return Handle(value);
}

std::vector<const lta_value*> pointers(const std::vector<Handle>& handles) {
  std::vector<const lta_value*> out;
  for (const Handle& handle : handles) {
    out.push_back(handle.get());
  }
  return out;
}

std::vector<Handle> items_of(const lta_value* value) {
  size_t size = 0;
  check(lta_value_size(value, &size));
  std::vector<Handle> items;
  for (size_t i = 0; i < size; ++i) {
    lta_value* item = nullptr;
    check(lta_value_item(value, i, &item));
    items.emplace_back(item);
  }
  return items;
}

std::string string_of(const lta_value* value) {
  const char* data = nullptr;
  size_t size = 0;
  check(lta_value_string(value, &data, &size));
  return std::string(data, size);
}

Handle read_value(const json::Value& value) {
  const auto& members = value.expect(json::Type::Object, "a value object").members;
  if (members.empty()) {
    throw json::Error("a value without a kind");
  }
  const std::string& kind = members[0].first;
  const json::Value& content = members[0].second;
  if (kind == "none") return check(lta_none());
  if (kind == "bool") return check(lta_bool(content.expect(json::Type::Bool, "a bool").boolean));
  if (kind == "int") return check(lta_int(content.integer()));
  if (kind == "double") return check(lta_double(content.real()));
  if (kind == "string") return check(lta_string(content.string().data(), content.text.size()));
  if (kind == "tensor") return read_tensor(content);
  if (kind == "dict") return read_dict(content);
  if (kind == "tuple" || kind == "list") {
    const std::vector<Handle> items = read_items(content);
    return check(kind == "tuple" ? lta_tuple(pointers(items).data(), items.size())
                                 : lta_list(kind_named(value.find("element")),
                                            pointers(items).data(), items.size()));
  }
  throw json::Error("not a kind of value: " + kind);
}

void write_value(json::Writer& out, const lta_value* value) {
  const lta_kind kind = lta_value_kind(value);
  out.open('{').key(kKinds[kind]);
  int boolean = 0;
  int64_t integer = 0;
  double real = 0;
  switch (kind) {
    case LTA_KIND_NONE:
    case LTA_KIND_OTHER:
      out.boolean(true);
      break;
    case LTA_KIND_BOOL:
      check(lta_value_bool(value, &boolean));
      out.boolean(boolean != 0);
      break;
    case LTA_KIND_INT:
      check(lta_value_int(value, &integer));
      out.integer(integer);
      break;
    case LTA_KIND_DOUBLE:
      check(lta_value_double(value, &real));
      out.real(real);
      break;
    case LTA_KIND_STRING:
      out.string(string_of(value));
      break;
    case LTA_KIND_TENSOR:
      write_tensor(out, value);
      break;
    case LTA_KIND_LIST:
    case LTA_KIND_TUPLE:
      write_items(out, value);
      break;
    case LTA_KIND_DICT:
      write_entries(out, value);
      break;
  }
  out.close('}');
}

} // namespace driver
