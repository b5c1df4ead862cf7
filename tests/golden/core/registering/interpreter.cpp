#include "library.h"
extern "C" void work(int);
using torch::jit::Stack;
struct OperatorGeneratorArgs {
  const char* schema;
  void (*operation)(Stack&);
  int alias;
};
static void len(Stack&) { work(5); }
static void tuple_index(Stack&) { work(6); }
static void other(Stack&) { work(7); }
struct Plain { const char* text; void (*function)(Stack&); };
extern "C" const OperatorGeneratorArgs operators[] = {
    {"aten::len.t(t[] a) -> int", len, 0},
    {"prim::TupleIndex(Any t, int i) -> Any", tuple_index, 1},
};
extern "C" const Plain no_operators[] = {{"not a schema", other}};

struct Split : torch::jit::Operation { void call(Stack&) override { work(10); } };
struct Infer : torch::jit::Operation { void call(Stack&) override { work(11); } };
struct Unrelated { Unrelated(const char*); };
static Unrelated before("before");
static torch::jit::Operator made[] = {
    {"aten::split(Tensor self) -> Tensor[]", new Split, 0},
    {"aten::_infer_size(int[] a) -> int[]", new Infer, 0},
};
