func firstCall(path: String) throws {
  let model = try Model(path: path)
  for method in model.methods {
    try print(model.schema(of: method))
  }
}
