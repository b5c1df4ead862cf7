func firstCall(path: String) throws {
  let model = try Model(path: path)
  let argument_lta_mode = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_LTA_OK = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let _1 = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let _x = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let std_dev = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let constant = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let co_x = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_Int = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let argument_UInt8 = try Value.tensor([UInt8](repeating: 0, count: 2 * 3), shape: [2, 3])
  let result = try model.run("forward", [argument_lta_mode, argument_LTA_OK, _1, _x, std_dev, constant, co_x, argument_Int, argument_UInt8])
  try print(result.shape(), String(cString: lta_dtype_name(result.dtype())))
}
