import libtorch.camera.Libtorch;
import libtorch.keyboard.DType;
import libtorch.keyboard.Module;
import libtorch.keyboard.Tensor;
import libtorch.keyboard.Value;

/** Two apps' libraries in one process: prints what `keyboard` gives for the words 0, 17, 256 and 3. */
final class TwoApps {
  private TwoApps() {}

  public static void main(String[] arguments) {
    require(Libtorch.hasOperator("aten::conv2d"), "camera has conv2d");
    require(!libtorch.keyboard.Libtorch.hasOperator("aten::conv2d"), "keyboard has no conv2d");
    try (libtorch.camera.Module picture = libtorch.camera.Module.load(arguments[0]);
        Module words = Module.load(arguments[1]);
        Tensor ids = Tensor.of(new long[] {0, 17, 256, 3}, 1, 4);
        Value scores = words.forward(ids);
        Value best = words.run("suggest", ids)) {
      require(picture.methods().contains("forward"), "camera");
      require(best.size() == 2 && best.get(1).toTensor().dtype() == DType.INT64, "words are int64");
      for (float score : scores.toTensor().toFloatArray()) {
        System.out.println(score);
      }
    }
    try {
      Module.load(arguments[0]);
      throw new AssertionError("keyboard's library runs camera's model");
    } catch (libtorch.keyboard.LibtorchException error) {
      require(error.status() == libtorch.keyboard.Status.MISSING_OPERATOR, error.getMessage());
      require(error.names().contains("aten::conv2d"), error.names().toString());
    }
  }

  private static void require(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError(what);
    }
  }
}
