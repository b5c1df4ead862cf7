import libtorch.toy.Module;
import libtorch.toy.Value;

final class FirstCall {
  static void run(String path) {
    try (Module module = Module.load(path);
        Value result = module.run("forward")) {
      System.out.println(result);
    }
  }
}
