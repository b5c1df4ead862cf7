"""Traces, recorded in the development library or in an app's tracer."""
