package libtorch.app;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A process with an app's library, as strangers have it: makes the calls of a report, and prints what the model runner would.
 *
 * <p>usage: Street MODEL CALLS STACK_KB THREADS. CALLS has a word a line: of each call {@code call}, its method, how many
 * arguments, and these, a value after the other; what it has inside comes behind it (test_street.py writes it).
 */
public final class Street {
  private final Module module;
  private final List<String> words;
  private final List<Value> results = new ArrayList<>();
  private int at;

  private Street(Module module, List<String> words) {
    this.module = module;
    this.words = words;
  }

  public static void main(String[] arguments) throws Exception {
    List<String> words = Files.readAllLines(Paths.get(arguments[1]));
    if (Integer.parseInt(arguments[3]) > 0) {
      Libtorch.setThreads(Integer.parseInt(arguments[3]));
    }
    Thread thread = new Thread(null, () -> {
      try (Module module = Module.load(arguments[0])) {
        System.out.println("{\"runs\":[" + String.join(",", new Street(module, words).runs()) + "]}");
      }
    }, "caller", 1024L * Integer.parseInt(arguments[2]));
    thread.start();
    thread.join();
  }

  private List<String> runs() {
    List<String> runs = new ArrayList<>();
    while (at < words.size()) {
      next(); // call
      String method = next();
      Value[] given = values();
      String end;
      try {
        results.add(module.run(method, given));
        end = ",\"output\":" + Driver.json(results.get(results.size() - 1)) + ",\"error\":null}";
      } catch (LibtorchException error) {
        results.add(Value.none());
        end = ",\"output\":null,\"error\":{\"code\":\"" + error.status() + "\",\"text\":"
            + Driver.quoted(String.valueOf(error.getMessage())) + "}}";
      }
      runs.add("{\"method\":" + Driver.quoted(method) + ",\"index\":" + runs.size() + end);
    }
    return runs;
  }

  private String next() {
    return words.get(at++);
  }

  private Value[] values() {
    Value[] values = new Value[Integer.parseInt(next())];
    for (int i = 0; i < values.length; ++i) {
      values[i] = value();
    }
    return values;
  }

  private Value value() {
    String kind = next();
    switch (kind) {
      case "none": return Value.none();
      case "bool": return Value.of(Boolean.parseBoolean(next()));
      case "int": return Value.of(Long.parseLong(next()));
      case "double": return Value.of(Double.parseDouble(next()));
      case "string": return Value.of(new String(decoded(), StandardCharsets.UTF_8));
      case "tensor": return tensor();
      case "tuple": return Value.tuple(values());
      case "list": return Value.list(Kind.OTHER, values());
      case "dict": {
        Value[] values = values();
        Map<Value, Value> entries = new LinkedHashMap<>();
        for (int i = 0; i < values.length; i += 2) {
          entries.put(values[i], values[i + 1]);
        }
        return Value.dict(Kind.OTHER, Kind.OTHER, entries);
      }
      case "result": {
        long[] path = numbers();
        Value found = results.get((int) (path[0] < 0 ? results.size() + path[0] : path[0]));
        for (int i = 1; i < path.length; ++i) {
          found = found.get(path[i]);
        }
        return found;
      }
      default: throw new IllegalArgumentException(kind);
    }
  }

  private byte[] decoded() {
    return Base64.getDecoder().decode(next());
  }

  private long[] numbers() {
    String text = next();
    String[] parts = text.isEmpty() ? new String[0] : text.split(",");
    long[] numbers = new long[parts.length];
    for (int i = 0; i < parts.length; ++i) {
      numbers[i] = Long.parseLong(parts[i]);
    }
    return numbers;
  }

  private Value tensor() {
    DType dtype = DType.valueOf(next().toUpperCase());
    long[] shape = numbers();
    boolean isUsual = "usual".equals(next());
    long[] strides = numbers();
    byte[] data = decoded();
    ByteBuffer buffer = ByteBuffer.allocateDirect(data.length).order(ByteOrder.nativeOrder());
    buffer.put(data).rewind();
    return isUsual ? Tensor.over(dtype, buffer, shape) : Tensor.over(dtype, buffer, shape, strides);
  }
}
