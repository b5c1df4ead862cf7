"""Libraries and packages, linked, verified and put into dist/."""
