"""The facts about each supported PyTorch version."""
