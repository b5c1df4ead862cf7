"""Models as files: what a `.ptl` names and holds, read without executing anything in it."""
