package libtorch.app;

/** The library itself. */
public final class Libtorch {
  private Libtorch() {}

  /**
   * The runtime.
   *
   * @return such as "PyTorch 1.13.1, bytecode 4 to 9"
   */
  public static String version() {
    return Native.text(Native.version());
  }

  /**
   * Whether an operator is in this library.
   *
   * @param name such as "aten::add.Tensor"
   * @return whether models may call it
   */
  public static boolean hasOperator(String name) {
    return Native.hasOperator(Native.bytes(name));
  }
}
