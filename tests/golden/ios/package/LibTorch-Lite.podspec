# For a spec repository of your own, where a Podfile's `pod 'LibTorch-Lite'` finds it.
Pod::Spec.new do |s|
  s.name = "LibTorch-Lite"
  s.version = "1.2.0"
  s.summary = "PyTorch 1.13.1, cut for the app toy, with the C++ classes of LibTorch-Lite"
  s.homepage = "https://pytorch.org"
  s.authors = "PyTorch and libtorch-orchestrator"
  s.license = { :type => "see licences", :file => "ToyLibtorch.xcframework/README.md" }
  # To publish it: { :http => "<address of ToyLibtorch-1.2.0-swift.zip>", :sha256 => "<as the build prints it>" }
  s.source = { :path => "." }
  s.platform = :ios, "15.0"
  s.vendored_frameworks = "ToyLibtorch.xcframework"
  s.resource_bundles = { "ToyLibtorchPrivacy" => ["Sources/ToyLibtorchSwift/PrivacyInfo.xcprivacy"] }
  s.libraries = "c++"
end
