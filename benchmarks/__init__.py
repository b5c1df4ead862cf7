"""Benchmarks on real PyTorch; see README.md."""
