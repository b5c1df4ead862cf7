"""Writes the action graph as a ninja file, and runs ninja."""
