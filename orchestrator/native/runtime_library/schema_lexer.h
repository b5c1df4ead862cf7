// Schemas are read by a small lexer of their own.
//
// Meaning: an operator's schema is parsed when it is registered. PyTorch's parser of schemas
// (torch/csrc/jit/frontend/function_schema_parser.cpp, schema_type_parser.cpp) sits on the lexer of
// TorchScript: a trie of Python's keywords, indentation, source ranges that are shared and know their
// call stack, errors that print the lines around them. That is 45 KB of a library, and its copies of
// tokens are most of the time that registering takes. Both units are compiled with `-include` of this
// file: the parser is PyTorch's own, word by word, and reads from the lexer here.
//
// It accepts what PyTorch's lexer accepts in a schema, and besides Python's keywords as names, and
// line ends between tokens. A refinement of a tensor's type (`Float(2, 3)`), which no schema may
// have, is left out of the parser (`complete_tensor_types`).
//
// Trap: the names below are macros until the unit ends, and `SchemaTypeParser` is another class than
// in PyTorch: both units, and no other, read this file.
#pragma once

#include <cctype>
#include <cstring>
#include <exception>
#include <string>

#include <ATen/core/Reduction.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/type_factory.h>
#include <torch/csrc/jit/frontend/error_report.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/frontend/strtod.h>
#include <torch/custom_class.h>

#include "numbers_read.h"

namespace torch {
namespace jit {
namespace lta_schema {

// The text that is parsed; the string that it came from outlives the parser.
struct Source {
  enum Copies { DONT_COPY };
  template <typename Text, typename... Rest>
  explicit Source(const Text& text, const Rest&...)
      : begin(text.data()), end(text.data() + text.size()) {}
  const char* begin;
  const char* end;
};

// A token's characters; a string where the parser keeps them.
struct Characters {
  const char* begin;
  const char* end;

  [[gnu::noinline]] operator std::string() const {
    return std::string(begin, end);
  }
  [[gnu::noinline]] bool is(const char* text) const {
    const auto size = static_cast<std::size_t>(end - begin);
    return std::strlen(text) == size && std::memcmp(begin, text, size) == 0;
  }
  bool operator==(const char* text) const {
    return is(text);
  }
  bool operator!=(const char* text) const {
    return !is(text);
  }
};

inline bool operator==(const char* text, const Characters& name) {
  return name.is(text);
}
[[gnu::noinline]] inline std::string operator+(std::string text, const Characters& more) {
  return text.append(more.begin, more.end);
}
inline std::string operator+(const Characters& text, const char* more) {
  return std::string(text) + more;
}

struct SourceRange {
  const Source* source;
  Characters text;
};

struct Token {
  int kind;
  SourceRange range;
  const Characters& text() const {
    return range.text;
  }
};

class ErrorReport : public std::exception {
 public:
  [[gnu::noinline]] explicit ErrorReport(const SourceRange& at)
      : message_("schema '") {
    message_.append(at.source->begin, at.source->end);
    message_ += "' at '";
    message_.append(at.text.begin, at.source->end);
    message_ += "': ";
  }
  explicit ErrorReport(const Token& at) : ErrorReport(at.range) {}
  const char* what() const noexcept override {
    return message_.c_str();
  }
  [[gnu::noinline]] ErrorReport& operator<<(const char* more) {
    message_ += more;
    return *this;
  }
  ErrorReport& operator<<(const std::string& more) {
    return *this << more.c_str();
  }

 private:
  std::string message_;
};

class Lexer {
 public:
  explicit Lexer(std::shared_ptr<Source> source)
      : source_(std::move(source)), at_(source_->begin), current_(read()) {}

  const Token& cur() const {
    return current_;
  }
  [[gnu::noinline]] Token next() {
    const Token token = current_;
    current_ = read();
    return token;
  }
  [[gnu::noinline]] bool nextIf(int kind) {
    if (current_.kind != kind) {
      return false;
    }
    current_ = read();
    return true;
  }
  [[gnu::noinline]] Token expect(int kind) {
    if (current_.kind != kind) {
      refuse(kind);
    }
    return next();
  }
  // The token behind the current one.
  Token lookahead() {
    const char* at = at_;
    const Token token = read();
    at_ = at;
    return token;
  }

 private:
  [[noreturn, gnu::noinline]] void refuse(int expected) const {
    const char character[] = {static_cast<char>(expected), 0};
    const char* const name = expected == TK_IDENT ? "a name"
        : expected == TK_NUMBER                   ? "a number"
        : expected == TK_STRINGLITERAL            ? "a string"
        : expected == TK_ARROW                    ? "->"
        : expected == TK_NONE                     ? "None"
        : expected == TK_EOF                      ? "its end"
                                                  : character;
    throw ErrorReport(current_) << "expected " << name;
  }

  static bool begins_name(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
  }
  static bool is_digit(char c) {
    return c >= '0' && c <= '9';
  }

  // Past blanks, line ends and comments.
  const char* skipped() const {
    const char* at = at_;
    const char* const end = source_->end;
    while (at != end) {
      if (*at == '#') {
        while (at != end && *at != '\n') {
          ++at;
        }
      } else if (
          std::isspace(static_cast<unsigned char>(*at)) == 0 &&
          !(*at == '\\' && at + 1 != end && at[1] == '\n')) {
        break;
      } else {
        ++at;
      }
    }
    return at;
  }

  // The end of a string, of one or three quotes at either end; null where it has none.
  const char* string_end(const char* begin) const {
    const char* const end = source_->end;
    const char quote = *begin;
    const int quotes = end - begin >= 3 && begin[1] == quote && begin[2] == quote ? 3 : 1;
    for (const char* at = begin + quotes; at < end; ++at) {
      if (*at == quote &&
          (quotes == 1 || (end - at >= 3 && at[1] == quote && at[2] == quote))) {
        return at + quotes;
      }
      if (*at == '\n' && quotes == 1) {
        return nullptr;
      }
      if (*at == '\\') {
        ++at;
      }
    }
    return nullptr;
  }

  [[gnu::noinline]] Token read() {
    const char* const begin = skipped();
    const char* const end = source_->end;
    const char* at = begin;
    int kind = TK_EOF;
    if (at == end) {
    } else if (begins_name(*at)) {
      do {
        ++at;
      } while (at != end && (begins_name(*at) || is_digit(*at)));
      kind = name_kind({begin, at});
    } else if (const char* const number = number_end(at); number != at) {
      kind = TK_NUMBER;
      at = number;
    } else if (*at == '\'' || *at == '"') {
      kind = TK_STRINGLITERAL;
      at = string_end(begin);
    } else if (end - at >= 2 && at[0] == '-' && at[1] == '>') {
      kind = TK_ARROW;
      at += 2;
    } else if (end - at >= 3 && std::memcmp(at, "...", 3) == 0) {
      kind = TK_DOTS;
      at += 3;
    } else {
      kind = static_cast<unsigned char>(*at);
      at = std::strchr(valid_single_char_tokens, *at) != nullptr ? at + 1 : nullptr;
    }
    if (at == nullptr) {
      throw ErrorReport(SourceRange{source_.get(), {begin, end}}) << "expected a valid token";
    }
    at_ = at;
    return {kind, {source_.get(), {begin, at}}};
  }

  static int name_kind(const Characters& name) {
    return name == "None" ? TK_NONE
        : name == "True"  ? TK_TRUE
        : name == "False" ? TK_FALSE
        : name == "NoneType" ? TK_NONE_TYPE
                             : TK_IDENT;
  }

  // `begin` where no number begins there. A number of `strtod`, and `j` behind it.
  static const char* number_end(const char* begin) {
    if (!is_digit(*begin) && *begin != '.') {
      return begin;
    }
    char* end = nullptr;
    strtod_c(begin, &end);
    return end != begin && *end == 'j' ? end + 1 : end;
  }

  std::shared_ptr<Source> source_;
  const char* at_;
  Token current_;
};

} // namespace lta_schema
} // namespace jit
} // namespace torch

#define Source lta_schema::Source
#define SourceRange lta_schema::SourceRange
#define Token lta_schema::Token
#define Lexer lta_schema::Lexer
#define ErrorReport lta_schema::ErrorReport

#include <torch/csrc/jit/frontend/parse_string_literal.h>
#include <torch/csrc/jit/frontend/schema_type_parser.h>

#define complete_tensor_types false
