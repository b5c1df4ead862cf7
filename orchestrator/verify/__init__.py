"""A model's outputs in one runtime, compared with another's."""
