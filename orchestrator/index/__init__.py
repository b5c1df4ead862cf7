"""What every function of PyTorch's objects needs: the runtime index, read and made."""
