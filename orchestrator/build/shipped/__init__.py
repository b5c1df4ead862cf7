"""Libraries that were shipped: whether a model fits one, and add-ons for it."""
