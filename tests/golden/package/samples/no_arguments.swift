func firstCall(path: String) throws {
  let model = try Model(path: path)
  let result = try model.run("forward", [])
  try print(result.shape(), String(cString: lta_dtype_name(result.dtype())))
}
