"""Effects on this machine: folders that we own, locks, processes."""
