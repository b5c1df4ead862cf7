// swift-tools-version:5.5
import PackageDescription

let package = Package(
  name: "ToyLibtorch",
  platforms: [.iOS("15.0")],
  products: [
    .library(name: "ToyLibtorch", targets: ["ToyLibtorch", "ToyLibtorchSwift"])
  ],
  targets: [
    .binaryTarget(name: "ToyLibtorch", path: "ToyLibtorch.xcframework"),
    .target(
      name: "ToyLibtorchSwift",
      dependencies: ["ToyLibtorch"],
      resources: [.copy("PrivacyInfo.xcprivacy")],
      linkerSettings: [.linkedLibrary("c++")]
    ),
  ]
)
