package libtorch.app;

import java.nio.Buffer;
import java.nio.BufferOverflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.ShortBuffer;
import java.util.Arrays;

/**
 * A tensor on the CPU.
 *
 * <p>{@link #of} makes one with a copy of an array, {@link #over} one that lies over a direct buffer without a copy. The
 * elements are read, always in row-major order, into an array or, without an allocation, into a buffer with {@link
 * #read}. An empty shape is that of a tensor with one element and no dimension.
 */
public final class Tensor extends Value {
  private static final long[] ROW_MAJOR = {};

  Tensor(long address) {
    super(address, Kind.TENSOR);
  }

  /**
   * A tensor over memory of a direct buffer, which lives at least as long as the tensor.
   *
   * <p>What is written into the buffer afterwards, the tensor has; so one tensor serves many calls. A model may write
   * into its inputs.
   *
   * @param dtype of the elements; not a quantised one
   * @param data direct, in the order {@link ByteOrder#nativeOrder} where an element is larger than a byte, from position
   *     to limit exactly the elements; {@link #allocate} makes a fitting one
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException if shape and data do not fit, or the position is not aligned for the dtype
   */
  public static Tensor over(DType dtype, ByteBuffer data, long... shape) {
    return over(dtype, (Buffer) data, shape, ROW_MAJOR);
  }

  /**
   * A tensor over memory of a direct buffer of any kind, whose elements lie in the order that the strides tell: a picture
   * [1, 3, height, width] of interleaved pixels ("channels last") has the strides [3 * height * width, 1, 3 * width, 3].
   *
   * @param dtype as in {@link #over(DType, ByteBuffer, long...)}
   * @param data likewise; a {@link java.nio.FloatBuffer}, an {@link java.nio.IntBuffer} and so on count position and
   *     limit in elements of their own
   * @param shape sizes of the dimensions
   * @param strides of the dimensions, in elements: from one element to the next
   * @return a new tensor
   * @throws LibtorchException if shape, strides and data do not fit, or the position is not aligned for the dtype
   */
  public static Tensor over(DType dtype, Buffer data, long[] shape, long[] strides) {
    if (data.isReadOnly()) {
      throw new ReadOnlyBufferException();
    }
    int unit = unit(data);
    requireDirect(dtype, data, unit);
    long offset = (long) data.position() * unit;
    long bytes = (long) data.remaining() * unit;
    // clones, since native code takes no null
    return new Tensor(
        Native.tensorOver(dtype.ordinal(), shape.clone(), strides.clone(), data, unit, offset, bytes));
  }

  /** How many bytes an element of a buffer has. */
  private static int unit(Buffer data) {
    if (data instanceof ByteBuffer) {
      return 1;
    }
    if (data instanceof ShortBuffer || data instanceof CharBuffer) {
      return 2;
    }
    return data instanceof IntBuffer || data instanceof FloatBuffer ? 4 : 8;
  }

  private static ByteOrder order(Buffer data) {
    if (data instanceof ByteBuffer) {
      return ((ByteBuffer) data).order();
    }
    if (data instanceof FloatBuffer) {
      return ((FloatBuffer) data).order();
    }
    if (data instanceof LongBuffer) {
      return ((LongBuffer) data).order();
    }
    if (data instanceof IntBuffer) {
      return ((IntBuffer) data).order();
    }
    if (data instanceof DoubleBuffer) {
      return ((DoubleBuffer) data).order();
    }
    return data instanceof ShortBuffer ? ((ShortBuffer) data).order() : ((CharBuffer) data).order();
  }

  /**
   * A tensor quantised per tensor, with a copy of its integers.
   *
   * @param dtype a quantised one
   * @param scale of the real numbers: {@code scale * (integer - zeroPoint)}
   * @param zeroPoint the integer for 0
   * @param data as in {@link #over}
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException with {@link Status#MISSING_OPERATOR} in a library whose models take no such input
   */
  public static Tensor quantized(DType dtype, double scale, long zeroPoint, ByteBuffer data, long... shape) {
    requireDirect(dtype, data, 1);
    long bits = Double.doubleToRawLongBits(scale);
    return new Tensor(
        Native.tensorQuantized(
            dtype.ordinal(), shape, data, data.position(), data.remaining(), bits, zeroPoint));
  }

  private static void requireDirect(DType dtype, Buffer data, int unit) {
    if (!data.isDirect()) {
      throw new IllegalArgumentException("the buffer is not direct: use Tensor.allocate");
    }
    if (Math.max(dtype.size(), unit) > 1 && order(data) != ByteOrder.nativeOrder()) {
      throw new IllegalArgumentException(
          "the buffer's byte order is " + order(data) + ": call order(ByteOrder.nativeOrder()) before writing to it");
    }
  }

  /**
   * A buffer for {@link #over} and {@link #read}: direct, in native order, filled with zeros.
   *
   * @param dtype of the elements
   * @param shape sizes of the dimensions
   * @return a new buffer of exactly that size
   */
  public static ByteBuffer allocate(DType dtype, long... shape) {
    long bytes = dtype.size();
    for (long size : shape) {
      if (size < 0) {
        throw new IllegalArgumentException("a size is negative: " + Arrays.toString(shape));
      }
      // Where a size is 0 the others may be anything.
      bytes = size == 0 ? 0 : Math.min(bytes, Integer.MAX_VALUE + 1L) * Math.min(size, Integer.MAX_VALUE + 1L);
    }
    if (bytes > Integer.MAX_VALUE) {
      throw new IllegalArgumentException("larger than a Java buffer can be: " + Arrays.toString(shape));
    }
    return ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder());
  }

  private static ByteBuffer room(DType dtype, int count) {
    return allocate(dtype, count);
  }

  /**
   * A {@link DType#FLOAT32} tensor.
   *
   * @param data its elements in row-major order; they are copied
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException if shape and data do not fit
   */
  public static Tensor of(float[] data, long... shape) {
    ByteBuffer bytes = room(DType.FLOAT32, data.length);
    bytes.asFloatBuffer().put(data);
    return over(DType.FLOAT32, bytes, shape);
  }

  /**
   * A {@link DType#FLOAT64} tensor.
   *
   * @param data its elements in row-major order; they are copied
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException if shape and data do not fit
   */
  public static Tensor of(double[] data, long... shape) {
    ByteBuffer bytes = room(DType.FLOAT64, data.length);
    bytes.asDoubleBuffer().put(data);
    return over(DType.FLOAT64, bytes, shape);
  }

  /**
   * An {@link DType#INT64} tensor.
   *
   * @param data its elements in row-major order; they are copied
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException if shape and data do not fit
   */
  public static Tensor of(long[] data, long... shape) {
    ByteBuffer bytes = room(DType.INT64, data.length);
    bytes.asLongBuffer().put(data);
    return over(DType.INT64, bytes, shape);
  }

  /**
   * An {@link DType#INT32} tensor.
   *
   * @param data its elements in row-major order; they are copied
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException if shape and data do not fit
   */
  public static Tensor of(int[] data, long... shape) {
    ByteBuffer bytes = room(DType.INT32, data.length);
    bytes.asIntBuffer().put(data);
    return over(DType.INT32, bytes, shape);
  }

  /**
   * An {@link DType#INT16} tensor.
   *
   * @param data its elements in row-major order; they are copied
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException if shape and data do not fit
   */
  public static Tensor of(short[] data, long... shape) {
    ByteBuffer bytes = room(DType.INT16, data.length);
    bytes.asShortBuffer().put(data);
    return over(DType.INT16, bytes, shape);
  }

  /**
   * A {@link DType#BOOL} tensor.
   *
   * @param data its elements in row-major order; they are copied
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException if shape and data do not fit
   */
  public static Tensor of(boolean[] data, long... shape) {
    ByteBuffer bytes = room(DType.BOOL, data.length);
    for (int i = 0; i < data.length; ++i) {
      bytes.put(i, (byte) (data[i] ? 1 : 0));
    }
    return over(DType.BOOL, bytes, shape);
  }

  /**
   * A tensor of a dtype whose elements are bytes.
   *
   * @param dtype {@link DType#UINT8} or {@link DType#INT8}
   * @param data its elements in row-major order; they are copied
   * @param shape sizes of the dimensions
   * @return a new tensor
   * @throws LibtorchException if shape and data do not fit
   */
  public static Tensor of(DType dtype, byte[] data, long... shape) {
    if (dtype != DType.UINT8 && dtype != DType.INT8) {
      throw new IllegalArgumentException(dtype + " is neither UINT8 nor INT8");
    }
    ByteBuffer bytes = room(dtype, data.length);
    bytes.duplicate().put(data);
    return over(dtype, bytes, shape);
  }

  // What Native.tensorInfo gives: dtype, bytes, whether quantised, then the shape, then the strides.
  private long[] info() {
    long address = handle.acquire();
    try {
      return Native.tensorInfo(address);
    } finally {
      handle.release();
    }
  }

  /**
   * The elements' type.
   *
   * @return the dtype
   */
  public DType dtype() {
    return DType.of(info()[0]);
  }

  /**
   * The shape.
   *
   * @return sizes of the dimensions
   */
  public long[] shape() {
    return shape(info());
  }

  private static long[] shape(long[] info) {
    return Arrays.copyOfRange(info, 3, 3 + (info.length - 3) / 2);
  }

  /**
   * How the elements lie in memory.
   *
   * @return for each dimension how many elements lie between one and the next
   */
  public long[] strides() {
    long[] info = info();
    return Arrays.copyOfRange(info, 3 + (info.length - 3) / 2, info.length);
  }

  /**
   * How many elements there are.
   *
   * @return the product of the shape
   */
  public long numel() {
    long count = 1;
    for (long size : shape()) {
      count *= size;
    }
    return count;
  }

  /**
   * How large the elements are together.
   *
   * @return bytes: what {@link #read} writes
   */
  public long nbytes() {
    return info()[1];
  }

  /**
   * Whether the tensor is quantised.
   *
   * @return whether the elements are integers that stand for real numbers
   */
  public boolean isQuantized() {
    return info()[2] != 0;
  }

  /**
   * The scale of a tensor that is quantised per tensor.
   *
   * @return what an integer's step is worth
   * @throws LibtorchException if it is not quantised so
   */
  public double scale() {
    return Double.longBitsToDouble(quantization()[0]);
  }

  /**
   * The zero point of a tensor that is quantised per tensor.
   *
   * @return the integer that stands for 0
   * @throws LibtorchException if it is not quantised so
   */
  public long zeroPoint() {
    return quantization()[1];
  }

  private long[] quantization() {
    long address = handle.acquire();
    try {
      return Native.tensorQuantization(address);
    } finally {
      handle.release();
    }
  }

  /**
   * Copies the elements, in native order, to a direct buffer's position, and moves that behind them.
   *
   * @param target a direct buffer with room for {@link #nbytes}
   * @throws LibtorchException if the elements cannot be read: sparse, or several in a byte
   */
  public void read(ByteBuffer target) {
    read(target, false);
  }

  /**
   * Copies the elements as {@link #read}, but in the order in which they lie in memory, which {@link #strides} tell: a
   * picture of interleaved pixels stays one.
   *
   * @param target as in {@link #read}
   * @throws LibtorchException if they do not lie there one behind the other, without gaps
   */
  public void readStored(ByteBuffer target) {
    read(target, true);
  }

  private void read(ByteBuffer target, boolean stored) {
    if (!target.isDirect()) {
      throw new IllegalArgumentException("the buffer is not direct: use Tensor.allocate");
    }
    if (target.isReadOnly()) {
      throw new ReadOnlyBufferException();
    }
    long address = handle.acquire();
    try {
      long bytes = Native.tensorInfo(address)[1];
      if (bytes > target.remaining()) {
        throw new BufferOverflowException();
      }
      if (stored) {
        Native.tensorReadStored(address, target, target.position(), bytes);
      } else {
        Native.tensorRead(address, target, target.position(), bytes);
      }
      target.position(target.position() + (int) bytes);
    } finally {
      handle.release();
    }
  }

  /**
   * A copy of the elements.
   *
   * @return a new direct buffer in native order, from its position to its limit the elements
   */
  public ByteBuffer toBuffer() {
    ByteBuffer copy = allocate(DType.UINT8, nbytes());
    read(copy);
    copy.flip();
    return copy;
  }

  private ByteBuffer copyOf(DType wanted) {
    DType dtype = dtype();
    if (dtype != wanted) {
      throw new LibtorchException(
          Status.WRONG_KIND, "the tensor is of " + dtype + ", not " + wanted, "");
    }
    return toBuffer();
  }

  /**
   * A copy of the elements of a {@link DType#FLOAT32} tensor.
   *
   * @return a new array
   * @throws LibtorchException if it is of another dtype
   */
  public float[] toFloatArray() {
    ByteBuffer bytes = copyOf(DType.FLOAT32);
    float[] data = new float[bytes.remaining() / 4];
    bytes.asFloatBuffer().get(data);
    return data;
  }

  /**
   * A copy of the elements of a {@link DType#FLOAT64} tensor.
   *
   * @return a new array
   * @throws LibtorchException if it is of another dtype
   */
  public double[] toDoubleArray() {
    ByteBuffer bytes = copyOf(DType.FLOAT64);
    double[] data = new double[bytes.remaining() / 8];
    bytes.asDoubleBuffer().get(data);
    return data;
  }

  /**
   * A copy of the elements of an {@link DType#INT64} tensor.
   *
   * @return a new array
   * @throws LibtorchException if it is of another dtype
   */
  public long[] toLongArray() {
    ByteBuffer bytes = copyOf(DType.INT64);
    long[] data = new long[bytes.remaining() / 8];
    bytes.asLongBuffer().get(data);
    return data;
  }

  /**
   * A copy of the elements of an {@link DType#INT32} tensor.
   *
   * @return a new array
   * @throws LibtorchException if it is of another dtype
   */
  public int[] toIntArray() {
    ByteBuffer bytes = copyOf(DType.INT32);
    int[] data = new int[bytes.remaining() / 4];
    bytes.asIntBuffer().get(data);
    return data;
  }

  /**
   * A copy of the elements of an {@link DType#INT16} tensor.
   *
   * @return a new array
   * @throws LibtorchException if it is of another dtype
   */
  public short[] toShortArray() {
    ByteBuffer bytes = copyOf(DType.INT16);
    short[] data = new short[bytes.remaining() / 2];
    bytes.asShortBuffer().get(data);
    return data;
  }

  /**
   * A copy of the elements of a {@link DType#BOOL} tensor.
   *
   * @return a new array
   * @throws LibtorchException if it is of another dtype
   */
  public boolean[] toBooleanArray() {
    ByteBuffer bytes = copyOf(DType.BOOL);
    boolean[] data = new boolean[bytes.remaining()];
    for (int i = 0; i < data.length; ++i) {
      data[i] = bytes.get(i) != 0;
    }
    return data;
  }

  /**
   * A copy of the elements' bytes, in native order, whatever the dtype.
   *
   * @return a new array
   */
  public byte[] toByteArray() {
    ByteBuffer bytes = toBuffer();
    byte[] data = new byte[bytes.remaining()];
    bytes.get(data);
    return data;
  }

  @Override
  public Tensor toTensor() {
    return this;
  }

  @Override
  public String toString() {
    long[] info = info();
    return "Tensor(" + DType.of(info[0]) + ", " + Arrays.toString(shape(info)) + ")";
  }
}
