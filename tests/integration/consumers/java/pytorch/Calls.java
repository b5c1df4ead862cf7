import android.content.res.AssetManager;
import android.graphics.Bitmap;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.pytorch.DType;
import org.pytorch.Device;
import org.pytorch.IValue;
import org.pytorch.LiteModuleLoader;
import org.pytorch.MemoryFormat;
import org.pytorch.Module;
import org.pytorch.PyTorchAndroid;
import org.pytorch.Tensor;
import org.pytorch.torchvision.TensorImageUtils;

/**
 * Calls every public method of the package {@code org.pytorch}.
 *
 * <p>The folder has models: {@code any.ptl} gives its argument back, {@code shorts.ptl} and {@code turned.ptl} a tensor of
 * their own, {@code extra.ptl} has extra files. Prints what is thrown.
 */
public final class Calls {
  private static final long[] PICTURE = {1, 3, 2, 2};
  private static final float[] TWELVE = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  private static String folder;
  private static Module any;

  private Calls() {}

  public static void main(String[] arguments) {
    folder = arguments[0] + "/";
    loading();
    tensors();
    formats();
    values();
    lists();
    dictionaries();
    results();
    bitmaps();
    frames();
    library();
    System.out.println("all calls made");
  }

  private static void require(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError(what);
    }
  }

  /** Prints what a call throws. */
  private static void thrown(String name, Runnable body) {
    try {
      body.run();
    } catch (RuntimeException error) {
      String kind = error.getClass().getSimpleName();
      System.out.println(name + ": " + kind + ": " + String.valueOf(error.getMessage()).replace(folder, ""));
      return;
    }
    throw new AssertionError(name + " threw nothing");
  }

  /** What the model gives for an argument: the argument. */
  private static IValue given(IValue value) {
    return any.forward(value);
  }

  private static void loading() {
    any = LiteModuleLoader.load(folder + "any.ptl");
    final AssetManager assets = new AssetManager(new File(folder));
    Module[] same = {
      Module.load(folder + "any.ptl"),
      Module.load(folder + "any.ptl", null, Device.CPU),
      LiteModuleLoader.load(folder + "any.ptl", Collections.<String, String>emptyMap(), Device.CPU),
      LiteModuleLoader.loadModuleFromAsset(assets, "any.ptl"),
      LiteModuleLoader.loadModuleFromAsset(assets, "any.ptl.gz", Device.CPU),
      PyTorchAndroid.loadModuleFromAsset(assets, "any.ptl"),
      PyTorchAndroid.loadModuleFromAsset(assets, "any.ptl", Device.CPU),
    };
    for (Module one : same) {
      require(one.runMethod("forward", IValue.from(7L)).toLong() == 7, "any");
      one.destroy();
      one.destroy();
    }
    Map<String, String> extra = new LinkedHashMap<String, String>();
    extra.put("labels.txt", "");
    extra.put("none.txt", "before");
    LiteModuleLoader.load(folder + "extra.ptl", extra, Device.CPU).destroy();
    require(extra.toString().equals("{labels.txt=Katze\nK\u00e4fer, none.txt=}"), extra.toString());
    final Module destroyed = same[0];
    thrown("destroyed", () -> destroyed.forward(IValue.from(7L)));
    thrown("no file", () -> Module.load(folder + "none.ptl"));
    thrown("no asset", () -> PyTorchAndroid.loadModuleFromAsset(assets, "none.ptl"));
    thrown("no compressed asset", () -> PyTorchAndroid.loadModuleFromAsset(assets, "none.gz"));
    thrown("vulkan", () -> LiteModuleLoader.load(folder + "any.ptl", null, Device.VULKAN));
    thrown("no method", () -> any.runMethod("backward"));
    thrown("too many", () -> any.forward(IValue.from(1L), IValue.from(2L)));
  }

  private static void tensors() {
    long[] shape = {2, 2};
    ByteBuffer bytes = Tensor.allocateByteBuffer(4);
    IntBuffer ints = Tensor.allocateIntBuffer(4);
    FloatBuffer floats = Tensor.allocateFloatBuffer(4);
    LongBuffer longs = Tensor.allocateLongBuffer(4);
    DoubleBuffer doubles = Tensor.allocateDoubleBuffer(4);
    Tensor[] over = {
      Tensor.fromBlobUnsigned(bytes, shape),
      Tensor.fromBlob(bytes, shape),
      Tensor.fromBlob(ints, shape),
      Tensor.fromBlob(floats, shape),
      Tensor.fromBlob(longs, shape),
      Tensor.fromBlob(doubles, shape),
    };
    // what is written later counts, and where the positions are does not
    bytes.put(new byte[] {-1, 2, 3, 4});
    ints.put(new int[] {-1, 2, 3, 4});
    floats.put(new float[] {-1, 2, 3, 4});
    longs.put(new long[] {-1, 2, 3, 4});
    doubles.put(new double[] {-1, 2, 3, 4});
    elements(over);
    elements(
        Tensor.fromBlobUnsigned(new byte[] {-1, 2, 3, 4}, shape),
        Tensor.fromBlob(new byte[] {-1, 2, 3, 4}, shape),
        Tensor.fromBlob(new int[] {-1, 2, 3, 4}, shape),
        Tensor.fromBlob(new float[] {-1, 2, 3, 4}, shape),
        Tensor.fromBlob(new long[] {-1, 2, 3, 4}, shape),
        Tensor.fromBlob(new double[] {-1, 2, 3, 4}, shape));
    require(Tensor.numel(new long[] {2, 3, 4}) == 24 && Tensor.numel(new long[0]) == 1, "numel");
    final Tensor number = Tensor.fromBlob(new float[] {5}, new long[0]);
    require(given(IValue.from(number)).toTensor().shape().length == 0, "a tensor without dimensions");
    Tensor none = given(IValue.from(Tensor.fromBlob(new float[0], new long[] {0, 3}))).toTensor();
    require(none.numel() == 0 && none.getDataAsFloatArray().length == 0, "an empty tensor");
    thrown("too few", () -> Tensor.fromBlob(new float[3], new long[] {2, 2}));
    thrown("too many", () -> Tensor.fromBlob(Tensor.allocateLongBuffer(5), new long[] {2, 2}));
    thrown("negative", () -> Tensor.fromBlob(new float[1], new long[] {-1}));
    thrown("no shape", () -> Tensor.fromBlob(new float[1], null));
    thrown("no array", () -> Tensor.fromBlob((float[]) null, new long[] {1}));
    thrown("no buffer", () -> Tensor.fromBlob((IntBuffer) null, new long[] {1}));
    thrown("not direct", () -> Tensor.fromBlob(FloatBuffer.allocate(1), new long[] {1}));
    ByteOrder other = ByteOrder.nativeOrder() == ByteOrder.BIG_ENDIAN ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN;
    final FloatBuffer foreign = ByteBuffer.allocateDirect(4).order(other).asFloatBuffer();
    thrown("another order", () -> Tensor.fromBlob(foreign, new long[] {1}));
    thrown("int8", number::getDataAsByteArray);
    thrown("uint8", number::getDataAsUnsignedByteArray);
    thrown("int32", number::getDataAsIntArray);
    thrown("int64", number::getDataAsLongArray);
    thrown("float64", number::getDataAsDoubleArray);
    thrown("float32", () -> over[1].getDataAsFloatArray());
  }

  /** Tensors of each dtype with the elements -1, 2, 3, 4, as they are and as a model gives them. */
  private static void elements(Tensor... tensors) {
    require(DType.values().length == tensors.length && DType.valueOf("INT8") == DType.INT8, "dtypes");
    for (int i = 0; i < tensors.length; ++i) {
      Tensor result = given(IValue.from(tensors[i])).toTensor();
      for (Tensor one : new Tensor[] {tensors[i], result}) {
        require(one.dtype() == DType.values()[i], one + " is no " + DType.values()[i]);
        require(Arrays.equals(one.shape(), new long[] {2, 2}) && one.numel() == 4, "shape of " + one);
        require(one.memoryFormat() == MemoryFormat.CONTIGUOUS, "format of " + one);
        String dtype = one.dtype().name().toLowerCase();
        require(one.toString().equals("Tensor([2, 2], dtype=torch." + dtype + ")"), one.toString());
        require(text(one).replace(".0", "").equals("[-1, 2, 3, 4]"), text(one));
      }
    }
  }

  private static String text(Tensor tensor) {
    switch (tensor.dtype()) {
      case UINT8:
        return Arrays.toString(tensor.getDataAsUnsignedByteArray());
      case INT8:
        return Arrays.toString(tensor.getDataAsByteArray());
      case INT32:
        return Arrays.toString(tensor.getDataAsIntArray());
      case FLOAT32:
        return Arrays.toString(tensor.getDataAsFloatArray());
      case INT64:
        return Arrays.toString(tensor.getDataAsLongArray());
      default:
        return Arrays.toString(tensor.getDataAsDoubleArray());
    }
  }

  private static void formats() {
    byte[] bytes = new byte[12];
    int[] ints = new int[12];
    long[] longs = new long[12];
    double[] doubles = new double[12];
    FloatBuffer floats = Tensor.allocateFloatBuffer(12);
    floats.put(TWELVE);
    MemoryFormat last = MemoryFormat.CHANNELS_LAST;
    Tensor[] pictures = {
      Tensor.fromBlob(TWELVE, PICTURE, last),
      Tensor.fromBlob(floats, PICTURE, last),
      Tensor.fromBlobUnsigned(bytes, PICTURE, last),
      Tensor.fromBlob(bytes, PICTURE, last),
      Tensor.fromBlob(ints, PICTURE, last),
      Tensor.fromBlob(longs, PICTURE, last),
      Tensor.fromBlob(doubles, PICTURE, last),
      Tensor.fromBlobUnsigned(Tensor.allocateByteBuffer(12), PICTURE, last),
      Tensor.fromBlob(Tensor.allocateByteBuffer(12), PICTURE, last),
      Tensor.fromBlob(Tensor.allocateIntBuffer(12), PICTURE, last),
      Tensor.fromBlob(Tensor.allocateLongBuffer(12), PICTURE, last),
      Tensor.fromBlob(Tensor.allocateDoubleBuffer(12), PICTURE, last),
    };
    for (Tensor picture : pictures) {
      Tensor result = given(IValue.from(picture)).toTensor();
      require(picture.memoryFormat() == last && result.memoryFormat() == last, "format of " + result);
      require(Arrays.equals(result.shape(), PICTURE), "shape of " + result);
      require(text(result).equals(text(picture)), "elements of " + result);
    }
    // PyTorch calls [1, 3, 1, 1] both, and 2.1's classes say the second
    Tensor point = Tensor.fromBlob(new float[] {1, 2, 3}, new long[] {1, 3, 1, 1});
    require(given(IValue.from(point)).toTensor().memoryFormat() == last, "a point");
    // of five dimensions a result is row-major
    Tensor film = Tensor.fromBlob(TWELVE, new long[] {1, 3, 1, 2, 2}, MemoryFormat.CHANNELS_LAST_3D);
    Tensor frames = given(IValue.from(film)).toTensor();
    require(frames.memoryFormat() == MemoryFormat.CONTIGUOUS, "a film");
    float[] channels = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11};
    require(Arrays.equals(frames.getDataAsFloatArray(), channels), text(frames));
    require(MemoryFormat.valueOf("CHANNELS_LAST") == MemoryFormat.values()[1], "formats");
    final Tensor flat = Tensor.fromBlob(TWELVE, new long[] {3, 4}, last);
    thrown("two dimensions", () -> given(IValue.from(flat)));
  }

  private static void values() {
    require(given(IValue.optionalNull()).isNull(), "None");
    IValue truth = given(IValue.from(true));
    require(truth.isBool() && truth.toBool(), "a bool");
    IValue number = given(IValue.from(1L << 40));
    require(number.isLong() && number.toLong() == 1L << 40, "an int");
    IValue real = given(IValue.from(0.1));
    require(real.isDouble() && real.toDouble() == 0.1, "a float");
    IValue text = given(IValue.from("\u00e4 \ud83d\ude00"));
    require(text.isString() && text.toStr().equals("\u00e4 \ud83d\ude00"), "a str");
    IValue pair = given(IValue.tupleFrom(IValue.from(1L), IValue.from("x")));
    require(pair.isTuple() && pair.toTuple().length == 2 && pair.toTuple()[1].toStr().equals("x"), "a tuple");
    require(given(IValue.tupleFrom()).toTuple().length == 0, "an empty tuple");
    IValue tensor = IValue.from(Tensor.fromBlob(TWELVE, PICTURE));
    require(tensor.isTensor() && !tensor.isNull() && !tensor.isBool() && !tensor.isLong(), "a tensor");
    require(!tensor.isDouble() && !tensor.isString() && !tensor.isTuple(), "a tensor");
    require(Device.values().length == 2 && Device.valueOf("CPU") == Device.CPU, "devices");
    thrown("no tensor", number::toTensor);
    thrown("no bool", number::toBool);
    thrown("no long", real::toLong);
    thrown("no double", number::toDouble);
    thrown("no str", number::toStr);
    thrown("no tuple", number::toTuple);
  }

  private static void lists() {
    IValue truths = given(IValue.listFrom(true, false));
    require(truths.isBoolList() && Arrays.equals(truths.toBoolList(), new boolean[] {true, false}), "bools");
    IValue numbers = given(IValue.listFrom(1L, 2L));
    require(numbers.isLongList() && Arrays.equals(numbers.toLongList(), new long[] {1, 2}), "ints");
    IValue reals = given(IValue.listFrom(0.5, 1.5));
    require(reals.isDoubleList() && Arrays.equals(reals.toDoubleList(), new double[] {0.5, 1.5}), "floats");
    Tensor tensor = Tensor.fromBlob(TWELVE, PICTURE);
    IValue tensors = given(IValue.listFrom(tensor, tensor));
    require(tensors.isTensorList() && tensors.toTensorList().length == 2, "tensors");
    require(tensors.toTensorList()[1].getDataAsFloatArray()[11] == 11, "tensors");
    IValue texts = given(IValue.listFrom(IValue.from("a"), IValue.from("b")));
    require(texts.isList() && texts.toList()[1].toStr().equals("b"), "texts");
    require(!texts.isBoolList() && !texts.isLongList() && !texts.isDoubleList() && !texts.isTensorList(), "texts");
    // a list of a list, as models give it
    IValue nested = given(IValue.listFrom(IValue.listFrom(1L), IValue.listFrom(2L)));
    require(nested.toList()[1].toLongList()[0] == 2, "nested");
    for (IValue empty : new IValue[] {given(IValue.listFrom(new long[0])), given(IValue.listFrom(new IValue[0]))}) {
      require(empty.isList() && empty.isBoolList() && empty.isLongList(), "an empty list");
      require(empty.isDoubleList() && empty.isTensorList(), "an empty list");
      require(empty.toBoolList().length + empty.toLongList().length + empty.toDoubleList().length == 0, "empty");
      require(empty.toTensorList().length + empty.toList().length == 0, "empty");
    }
    thrown("several kinds", () -> IValue.listFrom(IValue.from(1L), IValue.from("x")));
    thrown("no bools", numbers::toBoolList);
    thrown("no longs", reals::toLongList);
    thrown("no doubles", numbers::toDoubleList);
    thrown("no tensors", numbers::toTensorList);
    thrown("no list", numbers::toList);
  }

  private static void dictionaries() {
    Map<String, IValue> named = new LinkedHashMap<String, IValue>();
    named.put("out", IValue.from(Tensor.fromBlob(TWELVE, PICTURE)));
    named.put("aux", IValue.from(Tensor.fromBlob(TWELVE, PICTURE)));
    IValue byName = given(IValue.dictStringKeyFrom(named));
    require(byName.isDictStringKey() && !byName.isDictLongKey(), "by name");
    require(byName.toDictStringKey().keySet().toString().equals("[out, aux]"), "by name");
    Map<Long, IValue> numbered = Collections.singletonMap(7L, IValue.from(0.5));
    IValue byNumber = given(IValue.dictLongKeyFrom(numbered));
    require(byNumber.isDictLongKey() && byNumber.toDictLongKey().get(7L).toDouble() == 0.5, "by number");
    IValue empty = given(IValue.dictStringKeyFrom(Collections.<String, IValue>emptyMap()));
    require(empty.isDictStringKey() && empty.isDictLongKey(), "an empty dictionary");
    require(empty.toDictStringKey().isEmpty() && empty.toDictLongKey().isEmpty(), "an empty dictionary");
    thrown("no names", byNumber::toDictStringKey);
    thrown("no numbers", byName::toDictLongKey);
  }

  private static void results() {
    Tensor turned = Module.load(folder + "turned.ptl").forward().toTensor();
    require(Arrays.equals(turned.getDataAsDoubleArray(), new double[] {1, 3, 2, 4}), text(turned));
    thrown("shorts", () -> Module.load(folder + "shorts.ptl").forward());
    // each run's values are freed, whether it worked or not
    for (int i = 0; i < 2000; ++i) {
      given(IValue.from(Tensor.fromBlob(new float[1 << 16], new long[] {1 << 16})));
    }
  }

  private static void bitmaps() {
    int[] colors = {0xff000000, 0xffff0000, 0xff00ff00, 0xff0000ff, 0xffffffff, 0xff102030};
    final Bitmap bitmap = Bitmap.createBitmap(colors, 3, 2, Bitmap.Config.ARGB_8888);
    final float[] mean = TensorImageUtils.TORCHVISION_NORM_MEAN_RGB;
    final float[] deviation = TensorImageUtils.TORCHVISION_NORM_STD_RGB;
    Tensor whole = TensorImageUtils.bitmapToFloat32Tensor(bitmap, mean, deviation);
    require(Arrays.equals(whole.shape(), new long[] {1, 3, 2, 3}), "shape of a bitmap");
    float[] seen = whole.getDataAsFloatArray();
    for (int i = 0; i < colors.length; ++i) {
      for (int channel = 0; channel < 3; ++channel) {
        float level = (colors[i] >> (16 - 8 * channel) & 0xff) / 255.0f;
        require(seen[6 * channel + i] == (level - mean[channel]) / deviation[channel], "pixel " + i);
      }
    }
    MemoryFormat last = MemoryFormat.CHANNELS_LAST;
    Tensor interleaved = TensorImageUtils.bitmapToFloat32Tensor(bitmap, mean, deviation, last);
    require(interleaved.memoryFormat() == last, "interleaved");
    require(interleaved.getDataAsFloatArray()[3] == seen[1], "interleaved");
    Tensor part = TensorImageUtils.bitmapToFloat32Tensor(bitmap, 1, 1, 2, 1, mean, deviation);
    require(part.getDataAsFloatArray()[1] == seen[5], "a part");
    Tensor same = TensorImageUtils.bitmapToFloat32Tensor(bitmap, 1, 1, 2, 1, mean, deviation, last);
    require(same.getDataAsFloatArray()[3] == seen[5], "a part");
    final FloatBuffer buffer = Tensor.allocateFloatBuffer(20);
    buffer.position(19);
    TensorImageUtils.bitmapToFloatBuffer(bitmap, 0, 0, 3, 2, mean, deviation, buffer, 2);
    require(buffer.get(2) == seen[0] && buffer.get(19) == seen[17] && buffer.position() == 19, "a buffer");
    TensorImageUtils.bitmapToFloatBuffer(bitmap, 0, 0, 3, 2, mean, deviation, buffer, 2, last);
    require(buffer.get(2 + 3) == seen[1], "a buffer");
    thrown("three", () -> TensorImageUtils.bitmapToFloatBuffer(bitmap, 0, 0, 3, 2, mean, deviation, buffer, 3));
    thrown("mean", () -> TensorImageUtils.bitmapToFloat32Tensor(bitmap, new float[2], deviation));
    thrown("deviation", () -> TensorImageUtils.bitmapToFloat32Tensor(bitmap, mean, new float[4]));
    MemoryFormat film = MemoryFormat.CHANNELS_LAST_3D;
    thrown("film", () -> TensorImageUtils.bitmapToFloat32Tensor(bitmap, mean, deviation, film));
  }

  /** A frame of 8 by 4 whose luma tells the place: 16 + 8 * row + column. */
  private static Frame frame(boolean interleaved) {
    int[][] luma = new int[4][8];
    int[][] blue = new int[2][4];
    int[][] red = new int[2][4];
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 8; ++x) {
        luma[y][x] = 16 + 8 * y + x;
        blue[y / 2][x / 2] = 128;
        red[y / 2][x / 2] = 128;
      }
    }
    red[1][3] = 255;
    blue[0][2] = 0;
    return new Frame(luma, blue, red, interleaved);
  }

  /** The places that a result's pixels are of, by their green, which no chroma has changed. */
  private static String places(Tensor tensor) {
    float[] levels = tensor.getDataAsFloatArray();
    StringBuilder found = new StringBuilder();
    int count = levels.length / 3;
    for (int i = 0; i < count; ++i) {
      int level = Math.round(levels[count + i] * 255);
      found.append(i == 0 ? "" : " ").append((level * 1024 + 1191) / 1192);
    }
    return found.toString();
  }

  private static void frames() {
    final float[] zero = new float[3];
    final float[] one = {1, 1, 1};
    int[][] grey = new int[2][4];
    Arrays.fill(grey[0], 128);
    Arrays.fill(grey[1], 128);
    int[][] luma = new int[4][8];
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 8; ++x) {
        luma[y][x] = 16 + 8 * y + x;
      }
    }
    final Frame plain = new Frame(luma, grey, grey, false);
    String[] expected = {
      "2 3 4 5 10 11 12 13 18 19 20 21 26 27 28 29",
      "26 18 10 2 27 19 11 3 28 20 12 4 29 21 13 5",
      "29 28 27 26 21 20 19 18 13 12 11 10 5 4 3 2",
      "5 13 21 29 4 12 20 28 3 11 19 27 2 10 18 26",
    };
    for (int quarter = 0; quarter < 4; ++quarter) {
      Tensor square = TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(plain, 90 * quarter, 4, 4, zero, one);
      require(Arrays.equals(square.shape(), new long[] {1, 3, 4, 4}), "shape of a frame");
      require(places(square).equals(expected[quarter]), 90 * quarter + ": " + places(square));
    }
    // the whole frame, upright: half as many pixels, or twice as many
    Tensor small = TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(plain, 0, 4, 2, zero, one);
    require(places(small).equals("0 2 4 6 16 18 20 22"), places(small));
    Tensor large = TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(plain, 0, 16, 8, zero, one);
    require(places(large).startsWith("0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7 0 0 1 1"), places(large));
    Tensor tall = TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(plain, 90, 2, 4, zero, one);
    require(places(tall).equals("24 8 26 10 28 12 30 14"), places(tall));
    // not a whole number of pixels of the frame for one of the result
    Tensor third = TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(plain, 0, 3, 3, zero, one);
    require(places(third).equals("2 3 4 10 11 12 18 19 20"), places(third));
    MemoryFormat last = MemoryFormat.CHANNELS_LAST;
    Frame coloured = frame(true);
    Tensor flat = TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(frame(false), 0, 8, 4, zero, one);
    Tensor mixed = TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(coloured, 0, 8, 4, zero, one, last);
    float[] planes = flat.getDataAsFloatArray();
    float[] pixels = mixed.getDataAsFloatArray();
    for (int i = 0; i < 32; ++i) {
      for (int channel = 0; channel < 3; ++channel) {
        require(planes[32 * channel + i] == pixels[3 * i + channel], "pixel " + i);
      }
    }
    // the lowest right pixel, 16 + 31, with V = 255: by hand
    int[] corner = {(1192 * 31 + 1634 * 127) >> 10, 0, (1192 * 31) >> 10};
    for (int channel = 0; channel < 3; ++channel) {
      require(Math.round(planes[32 * channel + 31] * 255) == corner[channel], "corner " + channel);
    }
    FloatBuffer buffer = Tensor.allocateFloatBuffer(100);
    TensorImageUtils.imageYUV420CenterCropToFloatBuffer(coloured, 0, 8, 4, zero, one, buffer, 4);
    require(buffer.get(4 + 95) == planes[95], "a buffer");
    TensorImageUtils.imageYUV420CenterCropToFloatBuffer(coloured, 0, 8, 4, zero, one, buffer, 4, last);
    require(buffer.get(4 + 95) == pixels[95], "a buffer");
    thrown("45", () -> TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(plain, 45, 4, 4, zero, one));
    thrown("no size", () -> TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(plain, 0, 0, 4, zero, one));
    final Frame jpeg = frame(false);
    jpeg.format = 256;
    thrown("jpeg", () -> TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(jpeg, 0, 4, 4, zero, one));
  }

  private static void library() {
    PyTorchAndroid.setNumThreads(1);
    thrown("no thread", () -> PyTorchAndroid.setNumThreads(0));
    thrown("threads", () -> PyTorchAndroid.setNumThreads(4));
    require(libtorch.app.Libtorch.isAvailable(), "the library is available");
  }
}
