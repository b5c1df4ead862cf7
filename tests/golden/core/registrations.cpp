// Registrations selected for one app; written by the orchestrator from torchgen's output.
#include "RegisterSchema.cpp"
#undef TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include "RegisterBackendSelect.cpp"
#undef create_out
#define create_out create_out_CPU
#undef resize_out
#define resize_out resize_out_CPU
#undef check_inplace
#define check_inplace check_inplace_CPU
#undef maybe_create_proxy
#define maybe_create_proxy maybe_create_proxy_CPU
#include "RegisterCPU.cpp"
#undef create_out
#define create_out create_out_CompositeImplicitAutograd
#undef resize_out
#define resize_out resize_out_CompositeImplicitAutograd
#undef check_inplace
#define check_inplace check_inplace_CompositeImplicitAutograd
#undef maybe_create_proxy
#define maybe_create_proxy maybe_create_proxy_CompositeImplicitAutograd
#include "RegisterCompositeImplicitAutograd.cpp"
