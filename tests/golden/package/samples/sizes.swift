func firstCall(path: String) throws {
  let model = try Model(path: path)
  let argument_1 = try Value.tensor([Int8](repeating: 0, count: 1), shape: [])
  let argument_2 = try Value.tensor([Int8](repeating: 0, count: 0 * 3), shape: [0, 3])
  let argument_3 = try Value.tensor([Int8](repeating: 0, count: 1), shape: [1])
  let result = try model.run("forward", [argument_1, argument_2, argument_3])
  try print(result.shape(), String(cString: lta_dtype_name(result.dtype())))
}
