"""New apps, exported and canonical models."""
