package libtorch.app;

/** The library itself. */
public final class Libtorch {
  private Libtorch() {}

  /**
   * Whether the native library can be used on this device: it is not, where the app's package has none for the device's
   * ABI. Everything else of this API throws a {@link LinkageError} then: an {@link UnsatisfiedLinkError} that names the
   * ABIs that there are, and after the first one, also of this method, an error that has it as its cause.
   *
   * @return whether it is loaded, or could be now
   */
  public static boolean isAvailable() {
    try {
      Native.threads();
      return true;
    } catch (LinkageError unavailable) {
      return false;
    }
  }

  /**
   * The runtime.
   *
   * @return such as "PyTorch 1.13.1, bytecode 4 to 9"
   */
  public static String version() {
    return Native.text(Native.version());
  }

  /**
   * What was selected into this library.
   *
   * @return the digest that the library's manifest has as {@code selection_digest}
   */
  public static String selectionDigest() {
    return Native.text(Native.selectionDigest());
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

  /**
   * Adds to this library what an add-on has, so that the models that it was made for can be loaded too. Waits until no
   * model is loaded or run. What it has added stays until the process ends; an add-on that is there already is left
   * alone.
   *
   * @param path of a shared library that {@code orchestrate addon} made for this very build; also inside of an APK, as
   *     a class loader's {@code findLibrary} says it
   * @throws LibtorchException where the library was made without {@code extensible: true}, or the file is no add-on, is
   *     damaged, is for another build, or fails to register itself: then nothing of it stays
   */
  public static void extend(String path) {
    Native.extend(Native.bytes(path));
  }

  /**
   * How many threads a model may use, the caller's own among them.
   *
   * @return {@code threads} of the app.yaml that the library was made for, or what was set
   */
  public static int threads() {
    return Native.threads();
  }

  /**
   * Sets how many threads a model may use, for all modules and all callers. Runs that go on keep what they began with.
   *
   * @param count from 1 to 1024
   * @throws LibtorchException for other numbers, and for more than 1 where the library was made with {@code threads: 1}
   */
  public static void setThreads(int count) {
    Native.setThreads(count);
  }
}
