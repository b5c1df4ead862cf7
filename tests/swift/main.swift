// Every part of the Swift API once, on camera's library for Linux: README.md says how it is run. It
// takes a model of camera's, and one that returns a dictionary.
import Foundation
import ToyLibtorchSwift

func refused(_ body: () throws -> Void) -> String {
  do {
    try body()
    return "nothing was thrown"
  } catch {
    return "\(error)"
  }
}

let path = CommandLine.arguments[1]
let model = try Model(path: path)
print("methods:", model.methods.contains("forward"))
print("schema:", try model.schema())
print("no such method:", refused { _ = try model.schema(of: "backward") })

let picture = try Value.tensor([Float](repeating: 0.5, count: 3 * 96 * 96), shape: [1, 3, 96, 96])
let result = try model.forward(picture)
let scores: [Float] = try result.elements()
print("scores:", try result.shape(), scores.count, scores.allSatisfy { $0.isFinite })
print("of another type:", refused { let _: [Double] = try result.elements() })
print("too few:", refused { _ = try model.run("forward", []) })
print("of another kind:", refused { _ = try model.forward(Value.int(1)) })

let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
let again = try bytes.withUnsafeBytes { try Model(bytes: $0) }
print("from memory:", try again.forward(picture).elements() == scores)
print("no file:", refused { _ = try Model(path: "/nowhere.ptl") })

let pair = try Value.tuple([Value.bool(true), Value.double(0.5), Value.string("é"), Value.none()])
let items = try pair.items()
print("tuple:", try items[0].bool(), try items[1].double(), try items[2].string())
print("kinds:", items[3].kind == LTA_KIND_NONE, try items[0].kind == Value.bool(false).kind)
print("list:", try Value.list([Value.int(7)], empty: LTA_KIND_INT).items()[0].int())
print("no dictionary:", refused { _ = try pair.item("speech") })

let dictionary = try Model(path: CommandLine.arguments[2]).forward(picture)
print("dictionary:", dictionary.kind == LTA_KIND_DICT)
print("item:", try dictionary.item("scores").elements() == [Float](repeating: 0.5, count: 3 * 96 * 96))
print("another item:", try dictionary.item("count").int())
print("no item:", refused { _ = try dictionary.item("speech") })
print("key of another kind:", refused { _ = try dictionary.item(7) })
for (key, value) in try dictionary.entries() {
  print("entry:", try key.string(), value.kind == LTA_KIND_TENSOR)
}
