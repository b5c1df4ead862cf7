import libtorch.toy.DType;
import libtorch.toy.Module;
import libtorch.toy.Tensor;
import libtorch.toy.Value;

final class FirstCall {
  static void run(String path) {
    try (Module module = Module.load(path);
        Value Int = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value lta_x = Tensor.of(DType.INT8, new byte[2 * 3], 2, 3);
        Value LTA_y = Tensor.of(new short[2 * 3], 2, 3);
        Value result = module.run("forward", Int, lta_x, LTA_y)) {
      System.out.println(result);
    }
  }
}
