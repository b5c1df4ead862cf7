"""PyTorch 2.6: what only this version has. In preparation: decision 0050 says what is missing."""
