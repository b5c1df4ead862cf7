import libtorch.toy.Kind;
import libtorch.toy.Module;
import libtorch.toy.Tensor;
import libtorch.toy.Value;

final class FirstCall {
  static void run(String path) {
    try (Module module = Module.load(path);
        Value argument_1 = Value.none();
        Value argument_2 = Value.of(true);
        Value argument_3 = Value.of(-9223372036854775807L);
        Value argument_4 = Value.of(-1e+300);
        Value argument_5 = Value.of("100 %d {}'");
        Value argument_6_item_item = Value.of(1L);
        Value argument_6_item_item1 = Value.of(1L);
        Value argument_6_item = Value.list(Kind.NONE, argument_6_item_item, argument_6_item_item1);
        Value argument_6_item2 = Tensor.of(new boolean[1]);
        Value argument_6 = Value.tuple(argument_6_item, argument_6_item2);
        Value result = module.run("other", argument_1, argument_2, argument_3, argument_4, argument_5, argument_6)) {
      System.out.println(result);
    }
  }
}
