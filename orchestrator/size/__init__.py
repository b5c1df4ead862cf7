"""What the bytes of a delivered library are there for, and who asks for them."""
