// Stands in for torch/library.h: the same names, hence the same mangled symbols.
#pragma once
namespace c10 {
struct FunctionSchema { const char* text; };
}
namespace torch {
struct CppFunction {
  template <class F> explicit CppFunction(F* f) : kernel(reinterpret_cast<void (*)()>(f)) {}
  void (*kernel)();
};
class Library {
 public:
  enum Kind { DEF, IMPL };
  Library(Kind, const char* space, const char* key);
  template <class F> Library& impl(const char* name, F* f) & { return _impl(name, CppFunction(f)); }
  template <class F> Library& def(const char* schema, F* f) & {
    return _def(c10::FunctionSchema{schema}, CppFunction(f));
  }
  Library& def(const char* schema) & { return _def(c10::FunctionSchema{schema}); }
  Library& fallback(CppFunction&& f) & { return _fallback(static_cast<CppFunction&&>(f)); }

 private:
  Library& _impl(const char* name, CppFunction&& f) &;
  Library& _def(c10::FunctionSchema&& schema) &;
  Library& _def(c10::FunctionSchema&& schema, CppFunction&& f) &;
  Library& _fallback(CppFunction&& f) &;
};
struct TorchLibraryInit {
  TorchLibraryInit(Library::Kind, void (*)(Library&), const char* space, const char* key);
};
} // namespace torch

#define NAME(a, b) a##b
#define BLOCK(kind, enumerator, space, key, name)                                     \
  static void NAME(TORCH_LIBRARY_##kind##init_, name)(torch::Library&);               \
  static const torch::TorchLibraryInit NAME(TORCH_LIBRARY_##kind##static_init_, name)( \
      torch::Library::enumerator, &NAME(TORCH_LIBRARY_##kind##init_, name), space, key); \
  void NAME(TORCH_LIBRARY_##kind##init_, name)(torch::Library & m)
