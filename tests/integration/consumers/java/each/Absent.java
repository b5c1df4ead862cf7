package libtorch.app;

/** What an app is told on a device that the library is not made for: here, where it is not found. */
public final class Absent {
  private Absent() {}

  public static void main(String[] arguments) {
    if (arguments.length != 0) {
      System.out.println(Libtorch.isAvailable());
    }
    try {
      Module.load("model.ptl");
      throw new AssertionError("loaded");
    } catch (LinkageError error) {
      Throwable told = error instanceof UnsatisfiedLinkError ? error : error.getCause();
      System.out.println(told.getMessage());
    }
    System.out.println(Libtorch.isAvailable());
  }
}
