"""What we know about each supported PyTorch version."""
