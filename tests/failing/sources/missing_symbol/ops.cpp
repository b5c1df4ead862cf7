namespace at { namespace native { int helper(int); } }
int work() { return at::native::helper(3); }
