"""Models as files: reads the names and contents of a `.ptl` without executing anything in it."""
