import libtorch.camera.Libtorch;
import libtorch.camera.LibtorchException;
import libtorch.camera.Module;

/** Loads a model that needs an add-on, without it and with it: prints what is missing, then the methods. */
final class Extends {
  private Extends() {}

  public static void main(String[] arguments) {
    String model = arguments[0];
    try (Module module = Module.load(model)) {
      throw new AssertionError("loaded without its add-on: " + module.methods());
    } catch (LibtorchException error) {
      System.out.println(error.status() + " " + error.names());
    }
    Libtorch.extend(arguments[1]);
    // it is there already
    Libtorch.extend(arguments[1]);
    try (Module module = Module.load(model)) {
      System.out.println(module.methods().contains("forward"));
    }
  }
}
