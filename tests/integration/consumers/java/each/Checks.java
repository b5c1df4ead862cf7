package libtorch.app;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.ShortBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * What the Java API promises, tried on `camera`: a float32 picture [1, 3, 96, 96] to scores.
 *
 * <p>Prints a line for each failure's text, which the test compares, and ends with "all checks passed".
 */
public final class Checks {
  private static final long[] SHAPE = {1, 3, 96, 96};
  private static String path;

  private Checks() {}

  public static void main(String[] arguments) throws Exception {
    path = arguments[0];
    library();
    loading();
    failures();
    values();
    tensors();
    threads();
    closingWhileRunning();
    dropping();
    leaks();
    System.out.println("all checks passed");
  }

  private static void require(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError(what);
    }
  }

  private interface Body {
    void run() throws Exception;
  }

  /** Prints what a call throws. */
  private static void thrown(String name, Body body) {
    try {
      body.run();
    } catch (LibtorchException error) {
      System.out.println(name + ": " + error.status() + " " + error.names() + " " + error.getMessage());
      return;
    } catch (Exception error) {
      System.out.println(name + ": " + error);
      return;
    }
    throw new AssertionError(name + " threw nothing");
  }

  private static Tensor picture() {
    float[] pixels = new float[3 * 96 * 96];
    for (int i = 0; i < pixels.length; ++i) {
      pixels[i] = (i % 255) / 255f;
    }
    return Tensor.of(pixels, SHAPE);
  }

  private static float[] scores(Module module) {
    try (Tensor picture = picture();
        Value scores = module.forward(picture)) {
      return scores.toTensor().toFloatArray();
    }
  }

  private static String refusal(Runnable call) {
    try {
      call.run();
      return "none";
    } catch (LibtorchException error) {
      return error.status() + " " + error.getMessage();
    }
  }

  private static void library() {
    require(Libtorch.version().startsWith("PyTorch 1.13.1"), Libtorch.version());
    require(Libtorch.selectionDigest().matches("[0-9a-f]{64}"), Libtorch.selectionDigest());
    require(Libtorch.hasOperator("aten::conv2d"), "conv2d");
    require(!Libtorch.hasOperator("aten::no_such"), "no_such");
    require(
        refusal(() -> Libtorch.extend("/no/such.so"))
            .equals(
                "INVALID_ARGUMENT this library takes no add-ons: its app.yaml does not say `extensible: true`"),
        "extend");
    require(refusal(() -> Libtorch.extend("a\0b")).equals("INVALID_ARGUMENT the path holds a zero"), "extend: zero");
    require(Libtorch.threads() == 1, "threads");
    Libtorch.setThreads(1);
    for (int count : new int[] {0, 2, 1025}) {
      boolean refused = false;
      try {
        Libtorch.setThreads(count);
      } catch (LibtorchException error) {
        refused = error.status() == Status.INVALID_ARGUMENT;
      }
      require(refused, "threads: " + count);
    }
  }

  private static void loading() throws Exception {
    byte[] bytes = Files.readAllBytes(Paths.get(path));
    ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length + 3);
    direct.position(3);
    direct.put(bytes).position(3);
    float[] expected;
    try (Module module = Module.load(path)) {
      require(module.methods().contains("forward"), module.methods().toString());
      require(module.bytecodeVersion() >= 4, "bytecode");
      expected = scores(module);
      float sum = 0;
      for (float score : expected) {
        sum += score;
      }
      require(Math.abs(sum - 1) < 1e-4, "softmax sums to one");
    }
    List<Module> modules =
        Arrays.asList(
            Module.load(bytes), Module.load(direct), Module.load(ByteBuffer.wrap(bytes)));
    require(direct.position() == 3, "the position stays");
    for (Module module : modules) {
      require(Arrays.equals(expected, scores(module)), "the same from memory");
      module.close();
      module.close();
    }
  }

  private static void failures() throws Exception {
    thrown("missing file", () -> Module.load("/no/such.ptl"));
    thrown("zero in path", () -> Module.load("a\0b"));
    thrown("no model", () -> Module.load(new byte[] {1, 2, 3}));
    thrown("no bytes", () -> Module.load(new byte[0]));
    thrown("null bytes", () -> Module.load((byte[]) null));
    Module module = Module.load(path);
    thrown("no such method", () -> module.run("nothing"));
    thrown("schema of no such method", () -> module.schema("nothing"));
    thrown("no argument", () -> module.forward());
    try (Tensor picture = picture()) {
      thrown("two arguments", () -> module.forward(picture, picture));
      thrown("null argument", () -> module.forward(picture, null));
      Value number = Value.of(1);
      thrown("wrong kind", () -> module.forward(number));
      thrown("not a tensor", number::toTensor);
      thrown("not a list", number::toList);
      thrown("not text", number::toText);
      number.close();
      thrown("closed value", () -> module.forward(number));
      thrown("wrong dtype of array", picture::toLongArray);
    }
    try (Tensor doubles = Tensor.of(new double[3 * 96 * 96], SHAPE)) {
      thrown("missing dtype", () -> module.forward(doubles));
    }
    try (Tensor flat = Tensor.of(new float[4], 2, 2)) {
      thrown("wrong rank", () -> module.forward(flat));
    }
    module.close();
    thrown("closed module", () -> module.forward());
    thrown("closed module's methods", module::methods);
    thrown("shape and data", () -> Tensor.of(new float[5], 2, 3));
    thrown("negative size", () -> Tensor.of(new float[5], -5));
    thrown("huge", () -> Tensor.of(new float[5], Long.MAX_VALUE, Long.MAX_VALUE));
    thrown("heap buffer", () -> Tensor.over(DType.UINT8, ByteBuffer.allocate(4), 4));
    thrown(
        "big-endian",
        () -> Tensor.over(DType.FLOAT32, ByteBuffer.allocateDirect(4).order(ByteOrder.BIG_ENDIAN), 1));
    ByteBuffer odd = Tensor.allocate(DType.FLOAT32, 2);
    odd.position(1).limit(5);
    FloatBuffer floats = Tensor.allocate(DType.FLOAT32, 6).asFloatBuffer();
    thrown("strides", () -> Tensor.over(DType.FLOAT32, floats, new long[] {2, 3}, new long[] {1}));
    thrown("too far", () -> Tensor.over(DType.FLOAT32, floats, new long[] {2, 3}, new long[] {4, 1}));
    Tensor gaps = Tensor.over(DType.FLOAT32, floats, new long[] {2, 2}, new long[] {4, 1});
    thrown("gaps", () -> gaps.readStored(Tensor.allocate(DType.FLOAT32, 4)));
    FloatBuffer foreign = ByteBuffer.allocateDirect(4).asFloatBuffer();
    thrown("big-endian floats", () -> Tensor.over(DType.FLOAT32, foreign, new long[] {1}, new long[] {1}));
    thrown("unaligned", () -> Tensor.over(DType.FLOAT32, odd, 1));
    thrown("read-only", () -> Tensor.over(DType.UINT8, Tensor.allocate(DType.UINT8, 4).asReadOnlyBuffer(), 4));
    thrown("quantised without scale", () -> Tensor.over(DType.QINT8, Tensor.allocate(DType.QINT8, 4), 4));
    thrown("quantised", () -> Tensor.quantized(DType.QINT8, 0.5, 0, Tensor.allocate(DType.QINT8, 4), 4));
    thrown("not bytes", () -> Tensor.of(DType.BOOL, new byte[4], 4));
    try (Tensor four = Tensor.of(new int[4], 4);
        Value none = Value.none();
        Value list = Value.list(Kind.INT)) {
      thrown("no room", () -> four.read(ByteBuffer.allocateDirect(15)));
      thrown("heap target", () -> four.read(ByteBuffer.allocate(16)));
      thrown("not quantised", four::scale);
      thrown("out of range", () -> list.get(0));
      thrown("negative index", () -> list.get(-1));
      thrown("bad key", () -> Value.dict(Kind.INT, Kind.INT, Collections.singletonMap(none, none)));
      Value dict = Value.dict(Kind.STRING, Kind.INT, Collections.emptyMap());
      thrown("no such key", () -> dict.get("a"));
      thrown("no such number", () -> dict.get(1));
      thrown("not a dict", () -> list.get("a"));
    }
    thrown("too large to allocate", () -> Tensor.allocate(DType.INT64, 1L << 40, 1L << 40));
  }

  private static void values() {
    String text = "\u00e9\ud83d\ude00 \0 end";
    require(Value.none().kind() == Kind.NONE, "none");
    require(Value.of(true).toBoolean() && !Value.of(false).toBoolean(), "bool");
    require(Value.of(Long.MIN_VALUE).toLong() == Long.MIN_VALUE, "int");
    require(Value.of(-0.1).toDouble() == -0.1 && Double.isNaN(Value.of(Double.NaN).toDouble()), "double");
    require(Value.of(text).toText().equals(text), "text");
    require(Value.of("").toText().isEmpty(), "empty text");
    Map<Value, Value> entries = new LinkedHashMap<>();
    entries.put(Value.of("b"), Value.of(2));
    entries.put(Value.of("a"), Value.of(1));
    Value dict = Value.dict(Kind.STRING, Kind.INT, entries);
    require(dict.kind() == Kind.DICT && dict.size() == 2, "dict");
    require(new ArrayList<>(dict.toMap().keySet()).equals(Arrays.asList("b", "a")), "order");
    require(dict.toMap().get("a").toLong() == 1, "entry");
    require(dict.get("a").toLong() == 1 && dict.get("b").toLong() == 2, "by key");
    Map<Value, Value> places = Collections.singletonMap(Value.of(-7), Value.of("here"));
    require(Value.dict(Kind.INT, Kind.STRING, places).get(-7).toText().equals("here"), "by number");
    Value tuple = Value.tuple(dict, Value.list(Kind.TENSOR), Value.of(7), Tensor.of(new long[] {5}));
    dict.close();
    require(tuple.size() == 4 && tuple.get(0).toMap().get("b").toLong() == 2, "a tuple keeps its items");
    require(tuple.get(1).size() == 0 && tuple.get(1).kind() == Kind.LIST, "empty list");
    require(tuple.toList().get(3).toTensor().shape().length == 0, "no dimension");
    require(tuple.get(3).toTensor().toLongArray()[0] == 5, "a tensor in a tuple");
    require(tuple.toString().equals("Value(TUPLE)"), tuple.toString());
    Value list = Value.list(Kind.INT, Value.of(1), Value.of(2), Value.of(3));
    require(list.size() == 3 && list.get(2).toLong() == 3, "list");
  }

  private static void tensors() {
    try (Tensor tensor = Tensor.of(new float[] {1.5f, -2, Float.NaN, 0, 0, 6}, 2, 3)) {
      require(tensor.dtype() == DType.FLOAT32 && tensor.numel() == 6 && tensor.nbytes() == 24, "facts");
      require(Arrays.equals(tensor.shape(), new long[] {2, 3}), "shape");
      require(!tensor.isQuantized(), "not quantised");
      require(Arrays.equals(tensor.toFloatArray(), new float[] {1.5f, -2, Float.NaN, 0, 0, 6}), "floats");
      require(tensor.toString().equals("Tensor(FLOAT32, [2, 3])"), tensor.toString());
      require(tensor.toBuffer().getFloat(4) == -2, "native order");
    }
    require(Arrays.equals(Tensor.of(new double[] {0.1}, 1).toDoubleArray(), new double[] {0.1}), "doubles");
    long[] longs = {Long.MIN_VALUE, Long.MAX_VALUE};
    require(Arrays.equals(Tensor.of(longs, 2).toLongArray(), longs), "longs");
    require(Arrays.equals(Tensor.of(new int[] {-1, 7}, 1, 2).toIntArray(), new int[] {-1, 7}), "ints");
    require(Arrays.equals(Tensor.of(new short[] {-3}, 1).toShortArray(), new short[] {-3}), "shorts");
    boolean[] flags = {true, false, true};
    require(Arrays.equals(Tensor.of(flags, 3).toBooleanArray(), flags), "booleans");
    byte[] bytes = {-1, 0, 127};
    require(Arrays.equals(Tensor.of(DType.UINT8, bytes, 3).toByteArray(), bytes), "bytes");
    require(Tensor.of(DType.INT8, bytes, 3).dtype() == DType.INT8, "int8");
    require(Tensor.of(new float[0], 0, 4).toFloatArray().length == 0, "empty");
    // Over a buffer: what is written into it afterwards, the tensor has.
    ByteBuffer memory = Tensor.allocate(DType.INT32, 4);
    memory.position(8);
    try (Tensor over = Tensor.over(DType.INT32, memory, 2)) {
      memory.putInt(8, 41).putInt(12, 42);
      require(Arrays.equals(over.toIntArray(), new int[] {41, 42}), "shared memory");
      ByteBuffer target = ByteBuffer.allocateDirect(20).order(ByteOrder.nativeOrder());
      target.position(4);
      over.read(target);
      require(target.position() == 12 && target.getInt(8) == 42, "read moves the position");
    }
    // In an order of its own: columns first.
    FloatBuffer columns = Tensor.allocate(DType.FLOAT32, 7).asFloatBuffer();
    columns.put(new float[] {0, 1, 2, 3, 4, 5, 6}).position(1);
    try (Tensor turned = Tensor.over(DType.FLOAT32, columns, new long[] {2, 3}, new long[] {1, 2})) {
      require(Arrays.equals(turned.strides(), new long[] {1, 2}), "strides");
      require(Arrays.equals(turned.toFloatArray(), new float[] {1, 3, 5, 2, 4, 6}), "rows");
      ByteBuffer target = Tensor.allocate(DType.FLOAT32, 6);
      turned.readStored(target);
      require(target.position() == 24 && target.getFloat(4) == 2, "as it lies");
    }
    ShortBuffer halves = Tensor.allocate(DType.INT16, 2).asShortBuffer();
    require(Tensor.over(DType.INT16, halves, new long[] {2}, new long[] {1}).numel() == 2, "shorts");
  }

  private static void threads() throws Exception {
    Module shared = Module.load(path);
    float[] expected = scores(shared);
    ExecutorService pool = Executors.newFixedThreadPool(6);
    List<Future<Boolean>> done = new ArrayList<>();
    for (int thread = 0; thread < 6; ++thread) {
      boolean own = thread < 4;
      done.add(
          pool.submit(
              (Callable<Boolean>)
                  () -> {
                    Module module = own ? Module.load(path) : shared;
                    boolean same = true;
                    for (int i = 0; i < 10; ++i) {
                      same &= Arrays.equals(expected, scores(module));
                      try {
                        module.run("nothing");
                        same = false;
                      } catch (LibtorchException error) {
                        same &= error.getMessage().startsWith("the model has no method nothing; it has ");
                      }
                    }
                    if (own) {
                      module.close();
                    }
                    return same;
                  }));
    }
    for (Future<Boolean> one : done) {
      require(one.get(), "threads give the same");
    }
    pool.shutdown();
    shared.close();
  }

  /** Whoever is in a call when another thread closes ends it well; later calls are refused. */
  private static void closingWhileRunning() throws Exception {
    for (int round = 0; round < 10; ++round) {
      Module module = Module.load(path);
      Tensor picture = picture();
      Thread runner =
          new Thread(
              () -> {
                try {
                  while (true) {
                    module.forward(picture).close();
                  }
                } catch (IllegalStateException expected) {
                  // closed
                }
              });
      runner.start();
      Thread.sleep(5 + round);
      if (round % 2 == 0) {
        picture.close();
      }
      module.close();
      picture.close();
      runner.join(10000);
      require(!runner.isAlive(), "the runner ends");
    }
  }

  private static void collect(Callable<Boolean> until, String what) throws Exception {
    for (int i = 0; i < 100 && !until.call(); ++i) {
      System.gc();
      Thread.sleep(20);
      Value.none().close(); // whoever makes an object frees what was dropped
    }
    require(until.call(), what);
  }

  private static void dropping() throws Exception {
    collect(() -> Handle.open() == 0, "what other checks dropped is freed: " + Handle.open());
    for (int i = 0; i < 100; ++i) {
      picture();
    }
    collect(() -> Handle.open() == 0, "dropped tensors are freed");
    ByteBuffer memory = Tensor.allocate(DType.FLOAT32, 4);
    WeakReference<ByteBuffer> buffer = new WeakReference<>(memory);
    Tensor tensor = Tensor.over(DType.FLOAT32, memory, 4);
    Value tuple = Value.tuple(tensor);
    memory = null;
    tensor.close();
    for (int i = 0; i < 5; ++i) {
      System.gc();
    }
    require(buffer.get() != null && tuple.get(0).toTensor().toFloatArray()[3] == 0, "a tuple keeps it");
    tuple.close();
    collect(() -> buffer.get() == null, "the buffer is given back");
  }

  private static long residentKilobytes() throws Exception {
    for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("\\D", ""));
      }
    }
    throw new AssertionError("no VmRSS");
  }

  private static void leaks() throws Exception {
    byte[] bytes = Files.readAllBytes(Paths.get(path));
    long before = 0;
    for (int i = 0; i < 300; ++i) {
      if (i == 100) {
        before = residentKilobytes();
      }
      Module.load(bytes).close();
      try {
        Module.load(Arrays.copyOf(bytes, bytes.length / 2));
        throw new AssertionError("half a model");
      } catch (LibtorchException error) {
        require(error.status() == Status.LOAD_FAILED, error.getMessage());
      }
    }
    long grown = residentKilobytes() - before;
    // Each round reads the model twice.
    require(grown < 200L * bytes.length / 1024 / 2, "modules leak: " + grown + " KB");
  }
}
