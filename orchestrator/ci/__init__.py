"""What a change touches, as the jobs of a CI system."""
