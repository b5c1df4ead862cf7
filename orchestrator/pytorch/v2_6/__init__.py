"""PyTorch 2.6: everything specific to this version (decisions 0050 and 0056)."""
