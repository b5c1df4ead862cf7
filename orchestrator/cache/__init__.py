"""What the user's cache folder holds: objects by content, their checks, and pruning."""
