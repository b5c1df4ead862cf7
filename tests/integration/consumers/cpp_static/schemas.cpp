// Reads each schema of a list with the library's parser and with PyTorch's own, and compares them.
//   cmake ... -DPROGRAM=schemas.cpp -DTREE=<PyTorch's sources> -DLIST=<one schema a line>
// Prints each schema that the two read as something else, what the library says of those that both
// refuse, and how many are the same.
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

// PyTorch's own, under other names than the library's
#define parseSchemaOrName upstreamSchemaOrName
#define parseSchema upstreamSchema
#define parseName upstreamName
#define SchemaTypeParser UpstreamSchemaTypeParser
#include <torch/csrc/jit/frontend/error_report.cpp>
#include <torch/csrc/jit/frontend/function_schema_parser.cpp>
#include <torch/csrc/jit/frontend/lexer.cpp>
#include <torch/csrc/jit/frontend/schema_type_parser.cpp>
#include <torch/csrc/jit/frontend/source_range.cpp>
#undef parseSchemaOrName
#undef parseSchema
#undef parseName
#undef SchemaTypeParser

namespace torch {
namespace jit {
#if __has_include(<c10/util/either.h>)
c10::FunctionSchema parseSchema(const std::string& schema);
#else
c10::FunctionSchema parseSchema(const std::string& schema, bool allow_typevars = true);
#endif
} // namespace jit
} // namespace torch

namespace {

bool same_types(
    const std::vector<c10::Argument>& left, const std::vector<c10::Argument>& right) {
  for (size_t i = 0; i < left.size(); ++i) {
    if (*left[i].real_type() != *right[i].real_type()) {
      return false;
    }
  }
  return true;
}

// What is wrong with the schema, if it is refused.
template <class Parse>
std::string parsed(const Parse& parse, const std::string& text, c10::optional<c10::FunctionSchema>& schema) {
  try {
    schema = parse(text);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

} // namespace

int main() {
  std::ifstream list(LIST);
  int same = 0;
  for (std::string text; std::getline(list, text);) {
    c10::optional<c10::FunctionSchema> ours, theirs;
    const auto upstream = [](const std::string& one) { return torch::jit::upstreamSchema(one); };
    const auto library = [](const std::string& one) { return torch::jit::parseSchema(one); };
    const std::string refused = parsed(upstream, text, theirs);
    const std::string said = parsed(library, text, ours);
    if (refused.empty() != said.empty()) {
      std::printf("%s: %s | %s\n", text.c_str(), refused.c_str(), said.c_str());
    } else if (!refused.empty()) {
      std::printf("%s\n", said.substr(0, said.find('\n')).c_str());
    } else if (
        *ours == *theirs && same_types(ours->arguments(), theirs->arguments()) &&
        same_types(ours->returns(), theirs->returns())) {
      ++same;
    } else {
      std::printf("another schema: %s\n", text.c_str());
    }
  }
  std::printf("%d the same\n", same);
  return 0;
}
