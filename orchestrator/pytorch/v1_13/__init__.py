"""PyTorch 1.13: everything specific to this version."""
