"""Canonical models: functional, in fewer operators, compared with what they were made of."""
