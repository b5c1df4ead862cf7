// any
