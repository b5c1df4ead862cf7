func firstCall(path: String) throws {
  let model = try Model(path: path)
  let argument_1 = try Value.none()
  let argument_2 = try Value.bool(true)
  let argument_3 = try Value.int(-9223372036854775807)
  let argument_4 = try Value.double(-1e+300)
  let argument_5 = try Value.string("100 %d {}'")
  let argument_6 = try Value.tuple([Value.list([Value.int(1), Value.int(1)]), Value.tensor([Bool](repeating: false, count: 1), shape: [])])
  let result = try model.run("other", [argument_1, argument_2, argument_3, argument_4, argument_5, argument_6])
  print("a result of kind \(result.kind.rawValue)")
}
