import libtorch.toy.Module;

final class FirstCall {
  static void run(String path) {
    try (Module module = Module.load(path)) {
      for (String method : module.methods()) {
        System.out.println(module.schema(method));
      }
    }
  }
}
