"""The user's cache folder: objects by content, checks of them, and pruning."""
