func firstCall(path: String) throws {
  let model = try Model(path: path)
  let int = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let result1 = try Value.tensor([Int8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let images = try Value.tensor([Int16](repeating: 0, count: 2 * 3), shape: [2, 3])
  let _2 = try Value.tensor([Int32](repeating: 0, count: 2 * 3), shape: [2, 3])
  let Value3 = try Value.tensor([Int64](repeating: 0, count: 2 * 3), shape: [2, 3])
  let result = try model.run("forward", [int, result1, images, _2, Value3])
  try print(result.shape(), String(cString: lta_dtype_name(result.dtype())))
}
