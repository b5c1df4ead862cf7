namespace c10 { struct Dispatcher { int findSchema(int); }; }
int work() { return c10::Dispatcher().findSchema(3); }
