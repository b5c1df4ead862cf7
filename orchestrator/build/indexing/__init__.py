"""The indices of runtimes and kernel libraries, which maintainers make."""
