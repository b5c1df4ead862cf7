package org.pytorch;

/** The types of elements that a {@link Tensor} of this package can have. */
public enum DType {
  /** Unsigned, 8 bits. */
  UINT8(libtorch.app.DType.UINT8),
  /** Signed, 8 bits. */
  INT8(libtorch.app.DType.INT8),
  /** Signed, 32 bits. */
  INT32(libtorch.app.DType.INT32),
  /** IEEE 754 binary32. */
  FLOAT32(libtorch.app.DType.FLOAT32),
  /** Signed, 64 bits. */
  INT64(libtorch.app.DType.INT64),
  /** IEEE 754 binary64. */
  FLOAT64(libtorch.app.DType.FLOAT64);

  /** The same in the app's own package. */
  final libtorch.app.DType own;

  DType(libtorch.app.DType own) {
    this.own = own;
  }

  static DType of(libtorch.app.DType own) {
    for (DType dtype : values()) {
      if (dtype.own == own) {
        return dtype;
      }
    }
    throw new IllegalArgumentException(
        "a model gave a tensor of " + own + ", which org.pytorch.Tensor cannot hold: use libtorch.app, or convert it in the model");
  }
}
