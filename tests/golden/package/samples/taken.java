import libtorch.toy.DType;
import libtorch.toy.Module;
import libtorch.toy.Tensor;
import libtorch.toy.Value;

final class FirstCall {
  static void run(String path) {
    try (Module module = Module.load(path);
        Value lta_mode = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value LTA_OK = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value _1 = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value _x = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value std_dev = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value constant = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value co_x = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value Int = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value UInt8 = Tensor.of(DType.UINT8, new byte[2 * 3], 2, 3);
        Value result = module.run("forward", lta_mode, LTA_OK, _1, _x, std_dev, constant, co_x, Int, UInt8)) {
      System.out.println(result);
    }
  }
}
