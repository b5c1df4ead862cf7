"""The library of `run` and `watch`: a base and its shards."""
