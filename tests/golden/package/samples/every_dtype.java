import libtorch.toy.DType;
import libtorch.toy.Module;
import libtorch.toy.Tensor;
import libtorch.toy.Value;

final class FirstCall {
  static void run(String path) {
    try (Module module = Module.load(path);
        Value argument_1 = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value argument_2 = Tensor.of(DType.INT8, new byte[2 * 3], 2, 3);
        Value argument_3 = Tensor.of(new short[2 * 3], 2, 3);
        Value argument_4 = Tensor.of(new int[2 * 3], 2, 3);
        Value argument_5 = Tensor.of(new long[2 * 3], 2, 3);
        Value argument_6 = Tensor.over(DType.FLOAT16, Tensor.allocate(DType.FLOAT16, 2, 3), 2, 3);
        Value argument_7 = Tensor.of(new float[2 * 3], 2, 3);
        Value argument_8 = Tensor.of(new double[2 * 3], 2, 3);
        Value argument_9 = Tensor.of(new boolean[2 * 3], 2, 3);
        Value argument_10 = Tensor.over(DType.BFLOAT16, Tensor.allocate(DType.BFLOAT16, 2, 3), 2, 3);
        Value result = module.run("forward", argument_1, argument_2, argument_3, argument_4, argument_5, argument_6, argument_7, argument_8, argument_9, argument_10)) {
      System.out.println(result);
    }
  }
}
