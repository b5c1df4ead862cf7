"""Modules for a Python with torch: they export models, make them canonical, lower and compare them.

They import torch, each other, and of the orchestrator only modules without imports: this Python has
none of the libraries that the orchestrator needs. `lowering_table` and `tolerances` import nothing
at all, and both sides read them.
"""
