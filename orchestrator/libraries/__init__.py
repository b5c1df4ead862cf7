"""Third-party libraries whose units variants link as they need them, and the kernels that call
them."""
