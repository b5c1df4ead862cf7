"""The variants that a change affects, as jobs of a CI system."""
