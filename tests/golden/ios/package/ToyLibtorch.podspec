Pod::Spec.new do |s|
  s.name = "ToyLibtorch"
  s.version = "1.2.0"
  s.summary = "PyTorch 1.13.1, cut for the app toy"
  s.homepage = "https://pytorch.org"
  s.authors = "PyTorch and libtorch-orchestrator"
  s.license = { :type => "see licences", :file => "ToyLibtorch.xcframework/README.md" }
  # To publish it: { :http => "<address of ToyLibtorch-1.2.0-swift.zip>", :sha256 => "<as the build prints it>" }
  s.source = { :path => "." }
  s.platform = :ios, "15.0"
  s.swift_versions = ["5.5"]
  s.module_name = "ToyLibtorchSwift"
  s.static_framework = true
  s.vendored_frameworks = "ToyLibtorch.xcframework"
  s.source_files = "Sources/ToyLibtorchSwift/*.swift"
  s.resource_bundles = { "ToyLibtorchPrivacy" => ["Sources/ToyLibtorchSwift/PrivacyInfo.xcprivacy"] }
  s.libraries = "c++"
end
