package org.pytorch;

/** The order in which the elements of a {@link Tensor} lie in memory. */
public enum MemoryFormat {
  /** Row-major: the last dimension varies fastest. */
  CONTIGUOUS,
  /** Of a shape [N, C, H, W], channels vary fastest: N, H, W, C. */
  CHANNELS_LAST,
  /** Of a shape [N, C, D, H, W], channels vary fastest: N, D, H, W, C. */
  CHANNELS_LAST_3D;

  private static final int CHANNELS = 1;
  private static final long[] ROW_MAJOR = {};

  /** The strides of a shape in this order; none for row-major. */
  long[] strides(long[] shape) {
    if (this == CONTIGUOUS) {
      return ROW_MAJOR;
    }
    int dimensions = this == CHANNELS_LAST ? 4 : 5;
    if (shape.length != dimensions) {
      throw new IllegalArgumentException(
          this + " is an order of " + dimensions + " dimensions, not of " + shape.length);
    }
    long[] strides = new long[dimensions];
    strides[CHANNELS] = 1;
    long step = shape[CHANNELS];
    for (int i = dimensions - 1; i >= 0; --i) {
      if (i != CHANNELS) {
        strides[i] = step;
        step *= Math.max(shape[i], 1);
      }
    }
    return strides;
  }

  /** Whether elements with these strides lie in the order {@link #CHANNELS_LAST}, as PyTorch defines it. */
  static boolean isChannelsLast(long[] shape, long[] strides) {
    if (shape.length != 4) {
      return false;
    }
    long step = 1;
    for (int i : new int[] {CHANNELS, 3, 2, 0}) {
      if (shape[i] != 1) {
        if (strides[i] != step) {
          return false;
        }
        step *= shape[i];
      }
    }
    return true;
  }
}
