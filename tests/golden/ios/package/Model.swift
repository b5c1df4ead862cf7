// ToyLibtorch itself is the C API. This module is Swift's, and carries the privacy manifest, since a
// static library carries no resources.
@_exported import ToyLibtorch

/// What the library refused: its status, its own words, and the names of what is missing.
public struct LibtorchError: Error, CustomStringConvertible {
  public let status: lta_status
  public let message: String
  public let names: [String]

  /// `MISSING_OPERATOR: ...`
  public var description: String {
    "\(String(cString: lta_status_name(status))): \(message)"
  }

  /// Of the last call of this thread that failed.
  init(_ status: lta_status) {
    self.status = status
    message = String(cString: lta_last_error())
    names = String(cString: lta_last_error_names()).split(separator: "\n").map(String.init)
  }
}

private func check(_ status: lta_status) throws {
  if status != LTA_OK { throw LibtorchError(status) }
}

/// A model. One thread at a time may use it; different models may run at once.
public final class Model {
  private let module: OpaquePointer

  /// Loads a `.ptl`. The file is a program: load those that you trust.
  public init(path: String) throws {
    var loaded: OpaquePointer?
    try check(lta_module_load(path, &loaded))
    module = loaded!
  }

  /// Loads a `.ptl` from memory, which may go afterwards.
  public init(bytes: UnsafeRawBufferPointer) throws {
    var loaded: OpaquePointer?
    try check(lta_module_load_memory(bytes.baseAddress, bytes.count, &loaded))
    module = loaded!
  }

  deinit { lta_module_free(module) }

  /// What can be run.
  public var methods: [String] {
    (0..<lta_module_method_count(module)).compactMap { index in
      lta_module_method_name(module, index).map { String(cString: $0) }
    }
  }

  /// What a method takes and gives: `forward(Tensor image) -> Tensor`.
  public func schema(of method: String = "forward") throws -> String {
    guard let text = lta_module_schema(module, method) else {
      throw LibtorchError(lta_last_status())
    }
    return try Value(owning: text).string()
  }

  public func forward(_ arguments: Value...) throws -> Value {
    try run("forward", arguments)
  }

  public func run(_ method: String, _ arguments: [Value]) throws -> Value {
    var result: OpaquePointer?
    let pointers = arguments.map { Optional($0.pointer) }
    try withExtendedLifetime(arguments) {
      try check(lta_module_run(module, method, pointers, pointers.count, &result))
    }
    return Value(owning: result!)
  }
}

/// An element of a tensor that Swift has a type for.
public protocol TensorElement {
  static var dtype: lta_dtype { get }
}

extension Float: TensorElement { public static var dtype: lta_dtype { LTA_FLOAT32 } }
extension Double: TensorElement { public static var dtype: lta_dtype { LTA_FLOAT64 } }
extension Int64: TensorElement { public static var dtype: lta_dtype { LTA_INT64 } }
extension Int32: TensorElement { public static var dtype: lta_dtype { LTA_INT32 } }
extension Int16: TensorElement { public static var dtype: lta_dtype { LTA_INT16 } }
extension Int8: TensorElement { public static var dtype: lta_dtype { LTA_INT8 } }
extension UInt8: TensorElement { public static var dtype: lta_dtype { LTA_UINT8 } }
extension Bool: TensorElement { public static var dtype: lta_dtype { LTA_BOOL } }

/// What was asked of a value that it is not.
public enum ValueError: Error {
  case dtype(expected: lta_dtype, seen: lta_dtype)
}

/// What a model takes and gives: a tensor, a number, text, none, or a list, tuple or dictionary of
/// values. Two threads must not use one at once.
public final class Value {
  let pointer: OpaquePointer

  init(owning pointer: OpaquePointer) { self.pointer = pointer }

  deinit { lta_value_free(pointer) }

  private static func made(_ pointer: OpaquePointer?) throws -> Value {
    guard let pointer = pointer else { throw LibtorchError(lta_last_status()) }
    return Value(owning: pointer)
  }

  /// A tensor with a copy of the elements, the last size the innermost.
  public static func tensor<Element: TensorElement>(
    _ elements: [Element], shape: [Int]
  ) throws -> Value {
    let sizes = shape.map(Int64.init)
    return try elements.withUnsafeBytes { data in
      try made(
        lta_tensor_copy(Element.dtype, sizes.count, sizes, nil, data.baseAddress, data.count))
    }
  }

  public static func none() throws -> Value { try made(lta_none()) }
  public static func bool(_ value: Bool) throws -> Value { try made(lta_bool(value ? 1 : 0)) }
  public static func int(_ value: Int64) throws -> Value { try made(lta_int(value)) }
  public static func double(_ value: Double) throws -> Value { try made(lta_double(value)) }
  public static func string(_ value: String) throws -> Value {
    try made(lta_string(value, value.utf8.count))
  }

  /// `empty` is the kind of the items where there are none.
  public static func list(_ items: [Value], empty: lta_kind = LTA_KIND_TENSOR) throws -> Value {
    try withExtendedLifetime(items) {
      try made(lta_list(empty, items.map { Optional($0.pointer) }, items.count))
    }
  }

  public static func tuple(_ items: [Value]) throws -> Value {
    try withExtendedLifetime(items) {
      try made(lta_tuple(items.map { Optional($0.pointer) }, items.count))
    }
  }

  public var kind: lta_kind { lta_value_kind(pointer) }

  private func described() throws -> lta_tensor_info {
    var info = lta_tensor_info()
    try check(lta_tensor_describe(pointer, &info))
    return info
  }

  /// Of a tensor.
  public func shape() throws -> [Int] {
    let info = try described()
    return withExtendedLifetime(self) { (0..<info.ndim).map { Int(info.shape[$0]) } }
  }

  /// Of a tensor.
  public func dtype() throws -> lta_dtype { try described().dtype }

  /// A tensor's elements in row-major order. Throws `ValueError.dtype` where they are of another type.
  public func elements<Element: TensorElement>(of: Element.Type = Element.self) throws -> [Element] {
    let info = try described()
    guard info.dtype == Element.dtype else {
      throw ValueError.dtype(expected: Element.dtype, seen: info.dtype)
    }
    return try [Element](unsafeUninitializedCapacity: info.numel) { buffer, count in
      try check(lta_tensor_read(pointer, buffer.baseAddress, info.nbytes))
      count = info.numel
    }
  }

  public func bool() throws -> Bool {
    var result: Int32 = 0
    try check(lta_value_bool(pointer, &result))
    return result != 0
  }

  public func int() throws -> Int64 {
    var result: Int64 = 0
    try check(lta_value_int(pointer, &result))
    return result
  }

  public func double() throws -> Double {
    var result = 0.0
    try check(lta_value_double(pointer, &result))
    return result
  }

  public func string() throws -> String {
    var data: UnsafePointer<CChar>?
    var size = 0
    try check(lta_value_string(pointer, &data, &size))
    return withExtendedLifetime(self) {
      String(decoding: UnsafeRawBufferPointer(start: data, count: size), as: UTF8.self)
    }
  }

  /// Of a list or a tuple.
  public func items() throws -> [Value] {
    var size = 0
    try check(lta_value_size(pointer, &size))
    return try (0..<size).map { index in
      var item: OpaquePointer?
      try check(lta_value_item(pointer, index, &item))
      return Value(owning: item!)
    }
  }

  /// Of a dictionary: the item at a key. Throws where there is none.
  public func item(_ key: Value) throws -> Value {
    var item: OpaquePointer?
    try withExtendedLifetime(key) { try check(lta_value_find(pointer, key.pointer, &item)) }
    return Value(owning: item!)
  }

  public func item(_ key: String) throws -> Value { try item(Value.string(key)) }
  public func item(_ key: Int64) throws -> Value { try item(Value.int(key)) }

  /// Of a dictionary, in the order in which they were put in.
  public func entries() throws -> [(key: Value, value: Value)] {
    var size = 0
    try check(lta_value_size(pointer, &size))
    return try (0..<size).map { index in
      var key: OpaquePointer?
      var item: OpaquePointer?
      try check(lta_value_entry(pointer, index, &key, &item))
      return (Value(owning: key!), Value(owning: item!))
    }
  }
}
