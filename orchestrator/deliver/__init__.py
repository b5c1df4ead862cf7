"""One variant's folder in `dist/`: library, headers, manifest, CMake package."""
