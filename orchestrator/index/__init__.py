"""The runtime index: what every function in PyTorch's objects references. Reads and makes it."""
