import libtorch.toy.DType;
import libtorch.toy.Module;
import libtorch.toy.Tensor;
import libtorch.toy.Value;

final class FirstCall {
  static void run(String path) {
    try (Module module = Module.load(path);
        Value int1 = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value result2 = Tensor.of(DType.INT8, new byte[2 * 3], 2, 3);
        Value images = Tensor.of(new short[2 * 3], 2, 3);
        Value _3 = Tensor.of(new int[2 * 3], 2, 3);
        Value Value4 = Tensor.of(new long[2 * 3], 2, 3);
        Value result = module.run("forward", int1, result2, images, _3, Value4)) {
      System.out.println(result);
    }
  }
}
