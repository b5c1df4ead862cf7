import libtorch.toy.DType;
import libtorch.toy.Module;
import libtorch.toy.Tensor;
import libtorch.toy.Value;

final class FirstCall {
  static void run(String path) {
    try (Module module = Module.load(path);
        Value argument_1 = Tensor.of(DType.INT8, new byte[1]);
        Value argument_2 = Tensor.of(DType.INT8, new byte[0 * 3], 0, 3);
        Value argument_3 = Tensor.of(DType.INT8, new byte[1], 1);
        Value result = module.run("forward", argument_1, argument_2, argument_3)) {
      System.out.println(result);
    }
  }
}
