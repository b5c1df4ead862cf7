package libtorch.app;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.charset.Charset;
import java.util.Arrays;

/**
 * The C API, one method each. Handles are longs; text is UTF-8; a double is passed as its bits.
 *
 * <p>The methods are bound when the library is loaded ({@code jni/natives.cpp}); their names and types, and those of
 * {@link #fail}, are agreed on with it. All but those that free throw {@link LibtorchException}.
 */
final class Native {
  private static final Charset UTF_8 = Charset.forName("UTF-8");

  static {
    try {
      System.loadLibrary(App.LIBRARY);
    } catch (UnsatisfiedLinkError cause) {
      UnsatisfiedLinkError told = new UnsatisfiedLinkError(unavailable(cause.getMessage()));
      told.initCause(cause);
      throw told;
    }
  }

  private Native() {}

  private static String unavailable(String reason) {
    return "lib" + App.LIBRARY + ".so is not available on this device, whose ABIs are " + Arrays.toString(deviceAbis())
        + "; it is made for " + Arrays.toString(App.ABIS) + " (Libtorch.isAvailable() tells it without an error): " + reason;
  }

  /** {@code android.os.Build.SUPPORTED_ABIS}, which only Android has. */
  private static Object[] deviceAbis() {
    try {
      return (Object[]) Class.forName("android.os.Build").getField("SUPPORTED_ABIS").get(null);
    } catch (ReflectiveOperationException notAndroid) {
      return new Object[] {System.getProperty("os.arch")};
    }
  }

  static byte[] bytes(String text) {
    return text.getBytes(UTF_8);
  }

  static String text(byte[] bytes) {
    return new String(bytes, UTF_8);
  }

  /** Called from native code after a failure. */
  static void fail(int status, byte[] text, byte[] names) {
    throw new LibtorchException(Status.of(status), text(text), text(names));
  }

  static native byte[] version();

  static native byte[] selectionDigest();

  static native boolean hasOperator(byte[] name);

  static native void extend(byte[] path);

  static native int threads();

  static native void setThreads(int count);

  static native long load(byte[] path);

  static native long loadBytes(byte[] data);

  static native long loadBuffer(ByteBuffer direct, long offset, long size);

  static native void freeModule(long module);

  static native long bytecodeVersion(long module);

  static native byte[][] methods(long module);

  static native long schema(long module, byte[] method);

  static native long run(long module, byte[] method, long[] arguments);

  static native long none();

  static native long ofBool(boolean value);

  static native long ofInt(long value);

  static native long ofDouble(long bits);

  static native long ofString(byte[] text);

  static native long tuple(long[] items);

  static native long list(int empty, long[] items);

  static native long dict(int emptyKey, int emptyValue, long[] keys, long[] items);

  static native void freeValue(long value);

  static native int kind(long value);

  static native boolean toBool(long value);

  static native long toInt(long value);

  static native long toDouble(long value);

  static native byte[] toText(long value);

  static native long size(long value);

  static native long item(long value, long index);

  static native long find(long value, long key);

  static native long[] entry(long value, long index);

  static native long tensorOver(
      int dtype, long[] shape, long[] strides, Buffer direct, int unit, long offset, long nbytes);

  static native long tensorQuantized(
      int dtype, long[] shape, ByteBuffer direct, long offset, long nbytes, long scaleBits, long zeroPoint);

  static native long[] tensorInfo(long value);

  static native void tensorRead(long value, ByteBuffer direct, long offset, long nbytes);

  static native void tensorReadStored(long value, ByteBuffer direct, long offset, long nbytes);

  static native long[] tensorQuantization(long value);
}
