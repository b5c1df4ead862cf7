"""PyTorch 1.13: what only this version has."""
