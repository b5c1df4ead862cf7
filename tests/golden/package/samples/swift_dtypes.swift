func firstCall(path: String) throws {
  let model = try Model(path: path)
  let argument_1 = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_2 = try Value.tensor([Int8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_3 = try Value.tensor([Int16](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_4 = try Value.tensor([Int32](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_5 = try Value.tensor([Int64](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_6 = try Value.tensor([Float](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_7 = try Value.tensor([Double](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_8 = try Value.tensor([Bool](repeating: false, count: 2 * 3), shape: [2, 3])
  let result = try model.run("forward", [argument_1, argument_2, argument_3, argument_4, argument_5, argument_6, argument_7, argument_8])
  try print(result.shape(), String(cString: lta_dtype_name(result.dtype())))
}
