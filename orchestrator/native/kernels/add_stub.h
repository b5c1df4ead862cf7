// torchgen's UfuncCPUKernel_add.cpp reads this before its own text: see faster.h. It is torchgen's
// file, too, that declares the stub.
#pragma once

#include "faster.h"
#include "iterated.h"

#ifdef ALSO_REGISTER_AVX512_DISPATCH
#define LTA_ADD_STUB add_stub_DECLARE_DISPATCH_type
#else
#define LTA_ADD_STUB add_stub
#endif

namespace at {
namespace native {
struct LTA_ADD_STUB;
}
} // namespace at

// As ATen/native/ufunc/add.h is for all dtypes (native_functions.yaml, `ufunc_inner_loop`).
template <void (*kernel)(at::TensorIteratorBase&, const at::Scalar&)>
struct lta::Faster<at::native::LTA_ADD_STUB, kernel> {
  static void run(at::TensorIteratorBase& iter, const at::Scalar& alpha) {
    AT_DISPATCH_SWITCH(
        iter.common_dtype(), "add_stub",
        AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND4(
            at::kBool, at::kBFloat16, at::kHalf, at::kComplexHalf, [&] {
              if constexpr (std::is_same<scalar_t, float>::value) {
                const float factor = alpha.to<float>();
                run_on_pairs(iter, [factor](const float* one, const float* other, float* to,
                                            int64_t count) { add(one, other, factor, to, count); });
              } else {
                kernel(iter, alpha);
              }
            }));
  }
  static constexpr auto value = &run;
};
