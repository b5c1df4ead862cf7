"""What runs in a Python with torch: models are exported, made canonical, lowered and compared.

Its modules import torch, each other, and of the orchestrator only what imports nothing: this Python
has none of the libraries that the orchestrator needs. `lowering_table` and `tolerances` import
nothing at all, and both sides read them.
"""
