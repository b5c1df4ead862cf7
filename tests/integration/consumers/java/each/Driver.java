package libtorch.app;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/**
 * The driver in Java: runs a model's bundled inputs and prints what came out as JSON.
 *
 * <p>The format is that of native/driver (driver.h, values.h), as far as comparing results needs it.
 */
public final class Driver {
  private Driver() {}

  public static void main(String[] arguments) {
    try (Module module = Module.load(arguments[0])) {
      System.out.println("{\"runs\":[" + String.join(",", runs(module)) + "],\"error\":null}");
    }
  }

  private static List<String> runs(Module module) {
    List<String> runs = new ArrayList<>();
    if (module.methods().contains("get_bundled_inputs_functions_and_info")) {
      try (Value functions = module.run("get_bundled_inputs_functions_and_info")) {
        for (Map.Entry<String, Value> function : functions.toMap().entrySet()) {
          Value getter = function.getValue().toMap().get("get_inputs_function_name");
          run(module, function.getKey(), getter.get(0).toText(), runs);
        }
      }
    } else {
      run(module, "forward", "get_all_bundled_inputs", runs);
    }
    return runs;
  }

  private static void run(Module module, String method, String getter, List<String> runs) {
    try (Value inputs = module.run(getter)) {
      for (int i = 0; i < inputs.size(); ++i) {
        Value[] arguments = inputs.get(i).toList().toArray(new Value[0]);
        try (Value output = module.run(method, arguments)) {
          runs.add(
              "{\"method\":" + quoted(method) + ",\"index\":" + i + ",\"output\":" + json(output)
                  + ",\"error\":null}");
        }
      }
    }
  }

  static String json(Value value) {
    switch (value.kind()) {
      case NONE: return "{\"none\":true}";
      case BOOL: return "{\"bool\":" + value.toBoolean() + "}";
      case INT: return "{\"int\":" + value.toLong() + "}";
      case DOUBLE: return "{\"double\":" + value.toDouble() + "}";
      case STRING: return "{\"string\":" + quoted(value.toText()) + "}";
      case TENSOR: return "{\"tensor\":" + tensor(value.toTensor()) + "}";
      case LIST: return "{\"list\":" + items(value) + "}";
      case TUPLE: return "{\"tuple\":" + items(value) + "}";
      case DICT: {
        List<String> entries = new ArrayList<>();
        for (Map.Entry<Value, Value> entry : value.entries()) {
          entries.add("[" + json(entry.getKey()) + "," + json(entry.getValue()) + "]");
        }
        return "{\"dict\":[" + String.join(",", entries) + "]}";
      }
      default: return "{\"other\":true}";
    }
  }

  private static String items(Value value) {
    List<String> items = new ArrayList<>();
    for (Value item : value.toList()) {
      items.add(json(item));
    }
    return "[" + String.join(",", items) + "]";
  }

  private static String tensor(Tensor tensor) {
    List<String> shape = new ArrayList<>();
    for (long size : tensor.shape()) {
      shape.add(Long.toString(size));
    }
    String data = Base64.getEncoder().encodeToString(tensor.toByteArray());
    String scale = tensor.isQuantized()
        ? ",\"scale\":" + tensor.scale() + ",\"zero_point\":" + tensor.zeroPoint()
        : "";
    return "{\"dtype\":" + quoted(tensor.dtype().name().toLowerCase()) + ",\"shape\":["
        + String.join(",", shape) + "],\"data\":" + quoted(data) + scale + "}";
  }

  static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char one : text.toCharArray()) {
      boolean isPlain = one >= ' ' && one <= '~' && one != '"' && one != '\\';
      quoted.append(isPlain ? String.valueOf(one) : String.format("\\u%04x", (int) one));
    }
    return quoted.append('"').toString();
  }
}
