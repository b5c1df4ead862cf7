package org.pytorch;

import java.math.BigInteger;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Arrays;
import java.util.Locale;

/**
 * Elements of one {@link DType}, with a shape.
 *
 * <p>A tensor of an array has a copy of it. A tensor of a buffer lies over all of the buffer, from its first element to its
 * capacity: what is written there between calls, the next call sees. {@code allocateFloatBuffer} and its like make such
 * buffers: direct, in native order. One that is read-only is copied in each call.
 *
 * <p>The elements of a result are in the order that {@link #memoryFormat} tells.
 */
public class Tensor {
  private final DType dtype;
  private final Buffer data;
  private final long[] shape;
  private final MemoryFormat memoryFormat;

  private Tensor(DType dtype, Buffer data, long[] shape, MemoryFormat memoryFormat) {
    this.dtype = dtype;
    this.data = data;
    this.shape = shape.clone();
    this.memoryFormat = memoryFormat;
  }

  /** A copy of a tensor that a model gave. */
  static Tensor of(libtorch.app.Tensor own) {
    DType dtype = DType.of(own.dtype());
    long[] shape = own.shape();
    ByteBuffer bytes = libtorch.app.Tensor.allocate(own.dtype(), shape);
    boolean channelsLast = MemoryFormat.isChannelsLast(shape, own.strides());
    if (channelsLast) {
      own.readStored(bytes);
    } else {
      own.read(bytes);
    }
    bytes.clear();
    MemoryFormat format = channelsLast ? MemoryFormat.CHANNELS_LAST : MemoryFormat.CONTIGUOUS;
    return new Tensor(dtype, typed(dtype, bytes), shape, format);
  }

  private static Buffer typed(DType dtype, ByteBuffer bytes) {
    switch (dtype) {
      case INT32:
        return bytes.asIntBuffer();
      case FLOAT32:
        return bytes.asFloatBuffer();
      case INT64:
        return bytes.asLongBuffer();
      case FLOAT64:
        return bytes.asDoubleBuffer();
      default:
        return bytes;
    }
  }

  /** The same in the app's own package, over the same memory unless that is read-only; the caller closes it. */
  libtorch.app.Tensor toOwn() {
    return libtorch.app.Tensor.over(dtype.own, writable().data, shape, memoryFormat.strides(shape));
  }

  /** This, or a copy if its buffer is read-only: a model may write into its arguments. */
  Tensor writable() {
    if (!data.isReadOnly()) {
      return this;
    }
    switch (dtype) {
      case UINT8:
        return fromBlobUnsigned(getDataAsUnsignedByteArray(), shape, memoryFormat);
      case INT8:
        return fromBlob(getDataAsByteArray(), shape, memoryFormat);
      case INT32:
        return fromBlob(getDataAsIntArray(), shape, memoryFormat);
      case FLOAT32:
        return fromBlob(getDataAsFloatArray(), shape, memoryFormat);
      case INT64:
        return fromBlob(getDataAsLongArray(), shape, memoryFormat);
      default:
        return fromBlob(getDataAsDoubleArray(), shape, memoryFormat);
    }
  }

  private static void requireArray(Object data, int length, long[] shape) {
    if (data == null) {
      throw new IllegalArgumentException("Data array must be not null");
    }
    requireCapacity(length, shape);
  }

  private static void requireBuffer(Buffer data, ByteOrder order, long[] shape) {
    requireCapacity(data.capacity(), shape);
    if (!data.isDirect()) {
      throw new IllegalArgumentException("Data buffer must be direct (java.nio.ByteBuffer#allocateDirect)");
    }
    if (order != ByteOrder.nativeOrder()) {
      throw new IllegalArgumentException("Data buffer must have native byte order (java.nio.ByteOrder#nativeOrder)");
    }
  }

  private static <T extends Buffer> T notNull(T data) {
    if (data == null) {
      throw new IllegalArgumentException("Data buffer must be not null");
    }
    return data;
  }

  private static void requireCapacity(long capacity, long[] shape) {
    long count = numel(shape);
    if (count != capacity) {
      throw new IllegalArgumentException(
          String.format(
              Locale.US,
              "Inconsistent data capacity:%d and shape number elements:%d shape:%s",
              capacity,
              count,
              Arrays.toString(shape)));
    }
  }

  /**
   * A direct buffer in native order.
   *
   * @param numElements its capacity
   * @return a new buffer of zeros
   */
  public static ByteBuffer allocateByteBuffer(int numElements) {
    return libtorch.app.Tensor.allocate(DType.UINT8.own, numElements);
  }

  /**
   * A direct buffer in native order.
   *
   * @param numElements its capacity
   * @return a new buffer of zeros
   */
  public static IntBuffer allocateIntBuffer(int numElements) {
    return libtorch.app.Tensor.allocate(DType.INT32.own, numElements).asIntBuffer();
  }

  /**
   * A direct buffer in native order.
   *
   * @param numElements its capacity
   * @return a new buffer of zeros
   */
  public static FloatBuffer allocateFloatBuffer(int numElements) {
    return libtorch.app.Tensor.allocate(DType.FLOAT32.own, numElements).asFloatBuffer();
  }

  /**
   * A direct buffer in native order.
   *
   * @param numElements its capacity
   * @return a new buffer of zeros
   */
  public static LongBuffer allocateLongBuffer(int numElements) {
    return libtorch.app.Tensor.allocate(DType.INT64.own, numElements).asLongBuffer();
  }

  /**
   * A direct buffer in native order.
   *
   * @param numElements its capacity
   * @return a new buffer of zeros
   */
  public static DoubleBuffer allocateDoubleBuffer(int numElements) {
    return libtorch.app.Tensor.allocate(DType.FLOAT64.own, numElements).asDoubleBuffer();
  }

  /**
   * A torch.uint8 tensor with a copy of an array.
   *
   * @param data its elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlobUnsigned(byte[] data, long[] shape, MemoryFormat memoryFormat) {
    requireArray(data, data == null ? 0 : data.length, shape);
    ByteBuffer copy = allocateByteBuffer(data.length);
    copy.put(data);
    copy.clear();
    return new Tensor(DType.UINT8, copy, shape, memoryFormat);
  }

  /**
   * A torch.uint8 tensor with a copy of an array in row-major order.
   *
   * @param data its elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlobUnsigned(byte[] data, long[] shape) {
    return fromBlobUnsigned(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.int8 tensor with a copy of an array.
   *
   * @param data its elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(byte[] data, long[] shape, MemoryFormat memoryFormat) {
    requireArray(data, data == null ? 0 : data.length, shape);
    ByteBuffer copy = allocateByteBuffer(data.length);
    copy.put(data);
    copy.clear();
    return new Tensor(DType.INT8, copy, shape, memoryFormat);
  }

  /**
   * A torch.int8 tensor with a copy of an array in row-major order.
   *
   * @param data its elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(byte[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.int32 tensor with a copy of an array.
   *
   * @param data its elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(int[] data, long[] shape, MemoryFormat memoryFormat) {
    requireArray(data, data == null ? 0 : data.length, shape);
    IntBuffer copy = allocateIntBuffer(data.length);
    copy.put(data);
    copy.clear();
    return new Tensor(DType.INT32, copy, shape, memoryFormat);
  }

  /**
   * A torch.int32 tensor with a copy of an array in row-major order.
   *
   * @param data its elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(int[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.float32 tensor with a copy of an array.
   *
   * @param data its elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(float[] data, long[] shape, MemoryFormat memoryFormat) {
    requireArray(data, data == null ? 0 : data.length, shape);
    FloatBuffer copy = allocateFloatBuffer(data.length);
    copy.put(data);
    copy.clear();
    return new Tensor(DType.FLOAT32, copy, shape, memoryFormat);
  }

  /**
   * A torch.float32 tensor with a copy of an array in row-major order.
   *
   * @param data its elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(float[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.int64 tensor with a copy of an array.
   *
   * @param data its elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(long[] data, long[] shape, MemoryFormat memoryFormat) {
    requireArray(data, data == null ? 0 : data.length, shape);
    LongBuffer copy = allocateLongBuffer(data.length);
    copy.put(data);
    copy.clear();
    return new Tensor(DType.INT64, copy, shape, memoryFormat);
  }

  /**
   * A torch.int64 tensor with a copy of an array in row-major order.
   *
   * @param data its elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(long[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.float64 tensor with a copy of an array.
   *
   * @param data its elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(double[] data, long[] shape, MemoryFormat memoryFormat) {
    requireArray(data, data == null ? 0 : data.length, shape);
    DoubleBuffer copy = allocateDoubleBuffer(data.length);
    copy.put(data);
    copy.clear();
    return new Tensor(DType.FLOAT64, copy, shape, memoryFormat);
  }

  /**
   * A torch.float64 tensor with a copy of an array in row-major order.
   *
   * @param data its elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(double[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.uint8 tensor over a buffer.
   *
   * @param data direct, in native order, with exactly the elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlobUnsigned(ByteBuffer data, long[] shape, MemoryFormat memoryFormat) {
    requireBuffer(notNull(data), data.order(), shape);
    ByteBuffer whole = data.duplicate();
    whole.clear();
    return new Tensor(DType.UINT8, whole, shape, memoryFormat);
  }

  /**
   * A torch.uint8 tensor over a buffer, whose elements are in row-major order.
   *
   * @param data direct, in native order, with exactly the elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlobUnsigned(ByteBuffer data, long[] shape) {
    return fromBlobUnsigned(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.int8 tensor over a buffer.
   *
   * @param data direct, in native order, with exactly the elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(ByteBuffer data, long[] shape, MemoryFormat memoryFormat) {
    requireBuffer(notNull(data), data.order(), shape);
    ByteBuffer whole = data.duplicate();
    whole.clear();
    return new Tensor(DType.INT8, whole, shape, memoryFormat);
  }

  /**
   * A torch.int8 tensor over a buffer, whose elements are in row-major order.
   *
   * @param data direct, in native order, with exactly the elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(ByteBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.int32 tensor over a buffer.
   *
   * @param data direct, in native order, with exactly the elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(IntBuffer data, long[] shape, MemoryFormat memoryFormat) {
    requireBuffer(notNull(data), data.order(), shape);
    IntBuffer whole = data.duplicate();
    whole.clear();
    return new Tensor(DType.INT32, whole, shape, memoryFormat);
  }

  /**
   * A torch.int32 tensor over a buffer, whose elements are in row-major order.
   *
   * @param data direct, in native order, with exactly the elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(IntBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.float32 tensor over a buffer.
   *
   * @param data direct, in native order, with exactly the elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(FloatBuffer data, long[] shape, MemoryFormat memoryFormat) {
    requireBuffer(notNull(data), data.order(), shape);
    FloatBuffer whole = data.duplicate();
    whole.clear();
    return new Tensor(DType.FLOAT32, whole, shape, memoryFormat);
  }

  /**
   * A torch.float32 tensor over a buffer, whose elements are in row-major order.
   *
   * @param data direct, in native order, with exactly the elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(FloatBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.int64 tensor over a buffer.
   *
   * @param data direct, in native order, with exactly the elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(LongBuffer data, long[] shape, MemoryFormat memoryFormat) {
    requireBuffer(notNull(data), data.order(), shape);
    LongBuffer whole = data.duplicate();
    whole.clear();
    return new Tensor(DType.INT64, whole, shape, memoryFormat);
  }

  /**
   * A torch.int64 tensor over a buffer, whose elements are in row-major order.
   *
   * @param data direct, in native order, with exactly the elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(LongBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A torch.float64 tensor over a buffer.
   *
   * @param data direct, in native order, with exactly the elements, in the order of the memory format
   * @param shape sizes of the dimensions
   * @param memoryFormat how the elements lie
   * @return a new tensor
   */
  public static Tensor fromBlob(DoubleBuffer data, long[] shape, MemoryFormat memoryFormat) {
    requireBuffer(notNull(data), data.order(), shape);
    DoubleBuffer whole = data.duplicate();
    whole.clear();
    return new Tensor(DType.FLOAT64, whole, shape, memoryFormat);
  }

  /**
   * A torch.float64 tensor over a buffer, whose elements are in row-major order.
   *
   * @param data direct, in native order, with exactly the elements
   * @param shape sizes of the dimensions
   * @return a new tensor
   */
  public static Tensor fromBlob(DoubleBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /**
   * How many elements there are.
   *
   * @return the product of the shape
   */
  public long numel() {
    return numel(shape);
  }

  /**
   * How many elements a tensor of a shape has.
   *
   * @param shape sizes of the dimensions
   * @return their product
   */
  public static long numel(long[] shape) {
    if (shape == null) {
      throw new IllegalArgumentException("Shape must be not null");
    }
    BigInteger count = BigInteger.ONE; // a size of 0 may follow factors that overflow a long
    for (long size : shape) {
      if (size < 0) {
        throw new IllegalArgumentException("Shape elements must be non negative");
      }
      count = count.multiply(BigInteger.valueOf(size));
    }
    if (count.bitLength() >= Long.SIZE) {
      throw new IllegalArgumentException("Shape has more elements than a long can count: " + Arrays.toString(shape));
    }
    return count.longValue();
  }

  /**
   * The shape.
   *
   * @return sizes of the dimensions, a copy
   */
  public long[] shape() {
    return shape.clone();
  }

  /**
   * The order in which the elements lie.
   *
   * @return the memory format
   */
  public MemoryFormat memoryFormat() {
    return memoryFormat;
  }

  /**
   * The elements' type.
   *
   * @return the dtype
   */
  public DType dtype() {
    return dtype;
  }

  private void require(DType wanted, String what) {
    if (dtype != wanted) {
      throw new IllegalStateException(
          "Tensor of type Tensor_" + name() + " cannot return data as " + what + " array.");
    }
  }

  /**
   * A copy of the elements of a torch.uint8 tensor, in the order of {@link #memoryFormat}.
   *
   * @return a new array
   * @throws IllegalStateException if it is of another dtype
   */
  public byte[] getDataAsUnsignedByteArray() {
    require(DType.UINT8, "unsigned byte");
    byte[] copy = new byte[data.capacity()];
    ((ByteBuffer) data).duplicate().get(copy);
    return copy;
  }

  /**
   * A copy of the elements of a torch.int8 tensor, in the order of {@link #memoryFormat}.
   *
   * @return a new array
   * @throws IllegalStateException if it is of another dtype
   */
  public byte[] getDataAsByteArray() {
    require(DType.INT8, "byte");
    byte[] copy = new byte[data.capacity()];
    ((ByteBuffer) data).duplicate().get(copy);
    return copy;
  }

  /**
   * A copy of the elements of a torch.int32 tensor, in the order of {@link #memoryFormat}.
   *
   * @return a new array
   * @throws IllegalStateException if it is of another dtype
   */
  public int[] getDataAsIntArray() {
    require(DType.INT32, "int");
    int[] copy = new int[data.capacity()];
    ((IntBuffer) data).duplicate().get(copy);
    return copy;
  }

  /**
   * A copy of the elements of a torch.float32 tensor, in the order of {@link #memoryFormat}.
   *
   * @return a new array
   * @throws IllegalStateException if it is of another dtype
   */
  public float[] getDataAsFloatArray() {
    require(DType.FLOAT32, "float");
    float[] copy = new float[data.capacity()];
    ((FloatBuffer) data).duplicate().get(copy);
    return copy;
  }

  /**
   * A copy of the elements of a torch.int64 tensor, in the order of {@link #memoryFormat}.
   *
   * @return a new array
   * @throws IllegalStateException if it is of another dtype
   */
  public long[] getDataAsLongArray() {
    require(DType.INT64, "long");
    long[] copy = new long[data.capacity()];
    ((LongBuffer) data).duplicate().get(copy);
    return copy;
  }

  /**
   * A copy of the elements of a torch.float64 tensor, in the order of {@link #memoryFormat}.
   *
   * @return a new array
   * @throws IllegalStateException if it is of another dtype
   */
  public double[] getDataAsDoubleArray() {
    require(DType.FLOAT64, "double");
    double[] copy = new double[data.capacity()];
    ((DoubleBuffer) data).duplicate().get(copy);
    return copy;
  }

  private String name() {
    return dtype.name().toLowerCase(Locale.US);
  }

  @Override
  public String toString() {
    return "Tensor(" + Arrays.toString(shape) + ", dtype=torch." + name() + ")";
  }
}
