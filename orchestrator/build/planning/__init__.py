"""Each variant's selection, units and links, without building."""
