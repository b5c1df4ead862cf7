// The library is a static one, and carries no resources: this target carries its privacy manifest.
@_exported import ToyLibtorch
