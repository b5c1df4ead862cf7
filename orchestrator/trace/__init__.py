"""Traces: the tracer's output turned into lock files, and lock files read back."""
