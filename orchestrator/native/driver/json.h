// A small, strict JSON reader and a writer with a stable layout.
//
// Contract: reads RFC 8259 and nothing else (no comments, no trailing commas, no duplicate keys, no
// lone surrogates); throws json::Error with the byte offset. Numbers keep their text, so that
// int64 and double both round trip. The writer puts out keys in the order it is given them, and
// doubles with 17 digits.
#pragma once

#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace json {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Type { Null, Bool, Number, String, Array, Object };

struct Value {
  Type type = Type::Null;
  bool boolean = false;
  std::string text; // of a String, decoded; of a Number, as written
  std::vector<Value> items;
  std::vector<std::pair<std::string, Value>> members;

  // A member of an object, or NULL.
  const Value* find(const char* key) const {
    for (const auto& member : members) {
      if (member.first == key) {
        return &member.second;
      }
    }
    return nullptr;
  }
  const Value& at(const char* key) const {
    if (const Value* found = find(key)) {
      return *found;
    }
    throw Error(std::string("missing key: ") + key);
  }
  const Value& expect(Type wanted, const char* what) const {
    if (type != wanted) {
      throw Error(std::string("not ") + what);
    }
    return *this;
  }
  const std::string& string() const { return expect(Type::String, "a string").text; }
  int64_t integer() const {
    expect(Type::Number, "an integer");
    errno = 0;
    char* end = nullptr;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (*end != '\0' || errno != 0) {
      throw Error("not an int64: " + text);
    }
    return value;
  }
  // A number, or one of the strings "nan", "inf" and "-inf".
  double real() const {
    if (type == Type::String) {
      if (text == "nan") return std::nan("");
      if (text == "inf") return HUGE_VAL;
      if (text == "-inf") return -HUGE_VAL;
    }
    return std::strtod(expect(Type::Number, "a number").text.c_str(), nullptr);
  }
};

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Value read() {
    Value value = read_value(0);
    skip_space();
    if (at_ != text_.size()) {
      fail("more text after the value");
    }
    return value;
  }

 private:
  static constexpr int kMaxDepth = 200;

  [[noreturn]] void fail(const char* what) const {
    throw Error(std::string(what) + " at byte " + std::to_string(at_));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') {
      ++at_;
    }
  }
  bool accept(char c) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }
  void want(char c) {
    if (!accept(c)) {
      const char what[] = {'w', 'a', 'n', 't', 'e', 'd', ' ', c, '\0'};
      fail(what);
    }
  }
  Value word(const char* word, Type type, bool boolean = false) {
    if (text_.compare(at_, std::strlen(word), word) != 0) {
      fail("not a value");
    }
    at_ += std::strlen(word);
    Value value;
    value.type = type;
    value.boolean = boolean;
    return value;
  }
  Value read_value(int depth) {
    if (depth > kMaxDepth) {
      fail("nested too deeply");
    }
    skip_space();
    switch (peek()) {
      case '{': return read_object(depth);
      case '[': return read_array(depth);
      case '"': {
        Value value;
        value.type = Type::String;
        value.text = read_string();
        return value;
      }
      case 't': return word("true", Type::Bool, true);
      case 'f': return word("false", Type::Bool, false);
      case 'n': return word("null", Type::Null);
      default: return read_number();
    }
  }
  Value read_object(int depth) {
    Value value;
    value.type = Type::Object;
    want('{');
    if (accept('}')) {
      return value;
    }
    do {
      skip_space();
      std::string key = read_string();
      if (value.find(key.c_str())) {
        fail("a duplicate key");
      }
      want(':');
      value.members.emplace_back(std::move(key), read_value(depth + 1));
    } while (accept(','));
    want('}');
    return value;
  }
  Value read_array(int depth) {
    Value value;
    value.type = Type::Array;
    want('[');
    if (accept(']')) {
      return value;
    }
    do {
      value.items.push_back(read_value(depth + 1));
    } while (accept(','));
    want(']');
    return value;
  }
  bool digits() {
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9') {
      ++at_;
    }
    return at_ > start;
  }
  Value read_number() {
    const size_t start = at_;
    if (peek() == '-') {
      ++at_;
    }
    const bool zero = peek() == '0';
    const size_t first = at_;
    if (!digits() || (zero && at_ > first + 1)) {
      fail("not a value");
    }
    if (peek() == '.') {
      ++at_;
      if (!digits()) {
        fail("no digit after the point");
      }
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') {
        ++at_;
      }
      if (!digits()) {
        fail("no digit in the exponent");
      }
    }
    Value value;
    value.type = Type::Number;
    value.text = text_.substr(start, at_ - start);
    return value;
  }
  unsigned hex4() {
    unsigned value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      if (c >= '0' && c <= '9') {
        value = value * 16 + unsigned(c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        value = value * 16 + unsigned((c | 0x20) - 'a') + 10;
      } else {
        fail("not four hexadecimal digits");
      }
    }
    return value;
  }
  void append_utf8(std::string& out, unsigned code) {
    if (code < 0x80) {
      out += char(code);
    } else if (code < 0x800) {
      out += char(0xC0 | (code >> 6));
      out += char(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      out += char(0xE0 | (code >> 12));
      out += char(0x80 | ((code >> 6) & 0x3F));
      out += char(0x80 | (code & 0x3F));
    } else {
      out += char(0xF0 | (code >> 18));
      out += char(0x80 | ((code >> 12) & 0x3F));
      out += char(0x80 | ((code >> 6) & 0x3F));
      out += char(0x80 | (code & 0x3F));
    }
  }
  void read_escape(std::string& out) {
    const char c = peek();
    ++at_;
    switch (c) {
      case '"': case '\\': case '/': out += c; return;
      case 'b': out += '\b'; return;
      case 'f': out += '\f'; return;
      case 'n': out += '\n'; return;
      case 'r': out += '\r'; return;
      case 't': out += '\t'; return;
      case 'u': break;
      default: fail("an unknown escape");
    }
    unsigned code = hex4();
    if (code >= 0xD800 && code < 0xDC00 && text_.compare(at_, 2, "\\u") == 0) {
      at_ += 2;
      const unsigned low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) {
        fail("a lone surrogate");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xD800 && code <= 0xDFFF) {
      fail("a lone surrogate");
    }
    append_utf8(out, code);
  }
  std::string read_string() {
    if (peek() != '"') {
      fail("wanted a string");
    }
    ++at_;
    std::string out;
    while (true) {
      if (at_ >= text_.size()) {
        fail("an unfinished string");
      }
      const char c = text_[at_++];
      if (c == '"') {
        return out;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        fail("a control character in a string");
      }
      if (c == '\\') {
        read_escape(out);
      } else {
        out += c;
      }
    }
  }

  const std::string& text_;
  size_t at_ = 0;
};

inline Value parse(const std::string& text) { return Reader(text).read(); }

// Writes one value; every call appends. Objects and arrays are opened and closed by hand.
class Writer {
 public:
  Writer& open(char bracket) {
    separate();
    out_ += bracket;
    first_ = true;
    ++depth_;
    return *this;
  }
  Writer& close(char bracket) {
    out_ += bracket;
    first_ = false;
    --depth_;
    return *this;
  }
  Writer& key(const std::string& name) {
    string(name);
    out_ += ':';
    first_ = true; // no comma before the value
    return *this;
  }
  Writer& null() { return raw("null"); }
  Writer& boolean(bool value) { return raw(value ? "true" : "false"); }
  Writer& integer(int64_t value) { return raw(std::to_string(value)); }
  Writer& real(double value) {
    if (std::isnan(value)) return raw("\"nan\"");
    if (std::isinf(value)) return raw(value > 0 ? "\"inf\"" : "\"-inf\"");
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    // "1" and "-0" would come back as integers.
    return raw(std::strpbrk(text, ".e") ? text : std::string(text) + ".0");
  }
  Writer& string(const std::string& text) {
    separate();
    out_ += '"';
    for (const char c : text) {
      escape(c);
    }
    out_ += '"';
    return *this;
  }
  // A value that another writer wrote.
  Writer& embed(const Writer& value) { return raw(value.out_); }
  // Whether what was opened is closed again.
  bool complete() const { return depth_ == 0 && !out_.empty(); }
  const std::string& text() const { return out_; }

 private:
  Writer& raw(const std::string& text) {
    separate();
    out_ += text;
    return *this;
  }
  void separate() {
    if (!first_) {
      out_ += ',';
    }
    first_ = false;
  }
  void escape(char c) {
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char text[8];
      std::snprintf(text, sizeof text, "\\u%04x", unsigned(static_cast<unsigned char>(c)));
      out_ += text;
    } else {
      out_ += c;
    }
  }

  std::string out_;
  bool first_ = true;
  int depth_ = 0;
};

} // namespace json
