"""Declaration files to typed values: YAML with places, strict models, errors that point."""
