"""The action graph as a ninja file, and ninja carrying it out."""
