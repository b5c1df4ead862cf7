func firstCall(path: String) throws {
  let model = try Model(path: path)
  let argument_Int = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_lta_x = try Value.tensor([Int8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_LTA_y = try Value.tensor([Int16](repeating: 0, count: 2 * 3), shape: [2, 3])
  let result = try model.run("forward", [argument_Int, argument_lta_x, argument_LTA_y])
  try print(result.shape(), String(cString: lta_dtype_name(result.dtype())))
}
