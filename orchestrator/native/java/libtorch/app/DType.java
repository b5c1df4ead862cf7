package libtorch.app;

/** The type of a tensor's elements. The order is that of {@code lta_dtype}, PyTorch's ScalarType. */
public enum DType {
  /** Unsigned, 8 bits. */
  UINT8(1),
  /** Signed, 8 bits. */
  INT8(1),
  /** Signed, 16 bits. */
  INT16(2),
  /** Signed, 32 bits. */
  INT32(4),
  /** Signed, 64 bits. */
  INT64(8),
  /** IEEE 754 binary16. */
  FLOAT16(2),
  /** IEEE 754 binary32. */
  FLOAT32(4),
  /** IEEE 754 binary64. */
  FLOAT64(8),
  /** Two binary16: real, imaginary. */
  COMPLEX32(4),
  /** Two binary32: real, imaginary. */
  COMPLEX64(8),
  /** Two binary64: real, imaginary. */
  COMPLEX128(16),
  /** One byte: 0 or 1. */
  BOOL(1),
  /** Quantised to signed 8 bits. */
  QINT8(1),
  /** Quantised to unsigned 8 bits. */
  QUINT8(1),
  /** Quantised to signed 32 bits. */
  QINT32(4),
  /** The upper half of a binary32. */
  BFLOAT16(2),
  /** Quantised to 4 bits, two in a byte: can be passed on, not read. */
  QUINT4X2(0),
  /** Quantised to 2 bits, four in a byte: can be passed on, not read. */
  QUINT2X4(0);

  private static final DType[] ALL = values();
  private final int size;

  DType(int size) {
    this.size = size;
  }

  /**
   * How large an element is.
   *
   * @return bytes of one element; 0 for a type that packs several into a byte
   */
  public int size() {
    return size;
  }

  static DType of(long code) {
    if (code < 0 || code >= ALL.length) {
      throw new IllegalStateException("a dtype that this API does not know: " + code);
    }
    return ALL[(int) code];
  }
}
