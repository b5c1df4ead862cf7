"""The action graph, run by ninja, with the user's cache on both sides."""
