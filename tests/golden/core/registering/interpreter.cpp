extern "C" void work(int);
struct Stack;
struct OperatorGeneratorArgs {
  const char* schema;
  void (*operation)(Stack&);
  int alias;
};
static void len(Stack&) { work(5); }
static void tuple_index(Stack&) { work(6); }
static void other(Stack&) { work(7); }
struct Plain { const char* text; void (*function)(Stack&); };
// what is selected is known when it is compiled: a schema without a name is one left out
extern "C" const OperatorGeneratorArgs operators[] = {
    {"aten::len.t(t[] a) -> int", len, 0},
    {"prim::TupleIndex(Any t, int i) -> Any", tuple_index, 1},
};
extern "C" const Plain no_operators[] = {{"not a schema", other}};
