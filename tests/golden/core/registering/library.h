// Stands in for torch/library.h: the same names, hence the same mangled symbols.
#pragma once
namespace std {
inline namespace __1 {
template <class T> struct basic_string { basic_string(const T*); };
} // namespace __1
} // namespace std
namespace c10 {
struct FunctionSchema { const char* text; };
template <class F, F* function> struct CompileTimeFunctionPointer {};
} // namespace c10
namespace torch {
namespace detail {
template <bool> struct SelectiveStr { const char* text; };
} // namespace detail
template <class T> struct class_ {
  class_(const char*, const char*) {}
  template <class F> class_& def(const char*, F) { return *this; }
};
struct CppFunction {
  template <class F> explicit CppFunction(F* f) : kernel(reinterpret_cast<void (*)()>(f)) {}
  void (*kernel)();
};
class Library {
 public:
  enum Kind { DEF, IMPL };
  template <class F> Library& impl(const char* name, F* f) & { return _impl(name, CppFunction(f)); }
  // not inlined where it is called twice, so that the kernel is seen in its symbol only
  template <class F, F* f>
  __attribute__((noinline)) Library& impl(
      detail::SelectiveStr<true> name, c10::CompileTimeFunctionPointer<F, f>) & {
    return _impl(name.text, CppFunction(f));
  }
  template <class F> Library& def(const char* schema, F* f) & {
    return _def(c10::FunctionSchema{schema}, CppFunction(f));
  }
  Library& def(const char* schema) & { return _def(c10::FunctionSchema{schema}); }
  __attribute__((noinline)) Library& def(detail::SelectiveStr<true> schema) & {
    return _def(c10::FunctionSchema{schema.text});
  }
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
namespace jit {
struct Stack;
struct Operation { virtual void call(Stack&) = 0; };
struct Operator { Operator(std::basic_string<char> schema, Operation*, int alias); };
} // namespace jit
} // namespace torch

#define NAME(a, b) a##b
#define BLOCK(kind, enumerator, space, key, name)                                      \
  static void NAME(TORCH_LIBRARY_##kind##init_, name)(torch::Library&);                \
  static const torch::TorchLibraryInit NAME(TORCH_LIBRARY_##kind##static_init_, name)( \
      torch::Library::enumerator, &NAME(TORCH_LIBRARY_##kind##init_, name), space, key); \
  void NAME(TORCH_LIBRARY_##kind##init_, name)(torch::Library & m)
#define SELECTIVE(text) torch::detail::SelectiveStr<true>{text}
#define FN(function) c10::CompileTimeFunctionPointer<void(), function>()
