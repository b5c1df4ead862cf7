"""Why a library has something, and why an action runs."""
