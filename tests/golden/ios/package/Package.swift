// swift-tools-version:5.5
import PackageDescription

let package = Package(
  name: "ToyLibtorch",
  platforms: [.iOS("15.0")],
  products: [
    .library(name: "ToyLibtorch", targets: ["ToyLibtorch", "ToyLibtorchSupport"])
  ],
  targets: [
    .binaryTarget(name: "ToyLibtorch", path: "ToyLibtorch.xcframework"),
    .target(
      name: "ToyLibtorchSupport",
      dependencies: ["ToyLibtorch"],
      resources: [.copy("PrivacyInfo.xcprivacy")],
      linkerSettings: [.linkedLibrary("c++")]
    ),
  ]
)
