package libtorch.app;

/** What an app is told on a device that the library is not made for: here, where it is not found. */
public final class Absent {
  private Absent() {}

  public static void main(String[] arguments) {
    System.out.println(Libtorch.isAvailable());
    try {
      Module.load("model.ptl");
      throw new AssertionError("loaded");
    } catch (LinkageError error) {
      System.out.println(root(error).getMessage());
    }
    System.out.println(Libtorch.isAvailable());
  }

  private static Throwable root(Throwable error) {
    return error.getCause() == null ? error : root(error.getCause());
  }
}
