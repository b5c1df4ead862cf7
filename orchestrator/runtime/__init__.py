"""The runtime: a pinned PyTorch source tree, verified, and what is known about it."""
