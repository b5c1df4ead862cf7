package org.pytorch.torchvision;

import android.graphics.Bitmap;
import android.graphics.ImageFormat;
import android.media.Image;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import org.pytorch.MemoryFormat;
import org.pytorch.Tensor;

/**
 * Tensors of bitmaps and camera frames: float32, of the shape [1, 3, height, width], channels red, green and blue, each
 * from 0 to 1 and then less its mean, divided by its standard deviation.
 *
 * <p>The order of the elements is {@link MemoryFormat#CONTIGUOUS} or {@link MemoryFormat#CHANNELS_LAST}.
 */
public final class TensorImageUtils {
  /** The means that torchvision's models were trained with. */
  public static float[] TORCHVISION_NORM_MEAN_RGB = new float[] {0.485f, 0.456f, 0.406f};

  /** The standard deviations that torchvision's models were trained with. */
  public static float[] TORCHVISION_NORM_STD_RGB = new float[] {0.229f, 0.224f, 0.225f};

  private static final int LEVELS = 256;

  private TensorImageUtils() {}

  /**
   * A tensor of a whole bitmap.
   *
   * @param bitmap the picture
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @param memoryFormat the order of the elements
   * @return a new tensor
   */
  public static Tensor bitmapToFloat32Tensor(
      Bitmap bitmap, float[] normMeanRGB, float[] normStdRGB, MemoryFormat memoryFormat) {
    return bitmapToFloat32Tensor(
        bitmap, 0, 0, bitmap.getWidth(), bitmap.getHeight(), normMeanRGB, normStdRGB, memoryFormat);
  }

  /**
   * A tensor of a whole bitmap, in row-major order.
   *
   * @param bitmap the picture
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @return a new tensor
   */
  public static Tensor bitmapToFloat32Tensor(Bitmap bitmap, float[] normMeanRGB, float[] normStdRGB) {
    return bitmapToFloat32Tensor(bitmap, normMeanRGB, normStdRGB, MemoryFormat.CONTIGUOUS);
  }

  /**
   * A tensor of a part of a bitmap.
   *
   * @param bitmap the picture
   * @param x left edge of the part
   * @param y upper edge of the part
   * @param width of the part
   * @param height of the part
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @param memoryFormat the order of the elements
   * @return a new tensor
   */
  public static Tensor bitmapToFloat32Tensor(
      Bitmap bitmap,
      int x,
      int y,
      int width,
      int height,
      float[] normMeanRGB,
      float[] normStdRGB,
      MemoryFormat memoryFormat) {
    FloatBuffer elements = Tensor.allocateFloatBuffer(3 * width * height);
    bitmapToFloatBuffer(bitmap, x, y, width, height, normMeanRGB, normStdRGB, elements, 0, memoryFormat);
    return Tensor.fromBlob(elements, new long[] {1, 3, height, width}, memoryFormat);
  }

  /**
   * A tensor of a part of a bitmap, in row-major order.
   *
   * @param bitmap the picture
   * @param x left edge of the part
   * @param y upper edge of the part
   * @param width of the part
   * @param height of the part
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @return a new tensor
   */
  public static Tensor bitmapToFloat32Tensor(
      Bitmap bitmap, int x, int y, int width, int height, float[] normMeanRGB, float[] normStdRGB) {
    return bitmapToFloat32Tensor(
        bitmap, x, y, width, height, normMeanRGB, normStdRGB, MemoryFormat.CONTIGUOUS);
  }

  /**
   * Writes a part of a bitmap into a buffer, whose position stays.
   *
   * @param bitmap the picture
   * @param x left edge of the part
   * @param y upper edge of the part
   * @param width of the part
   * @param height of the part
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @param outBuffer where to
   * @param outBufferOffset the index of the first element there
   * @param memoryFormat the order of the elements
   * @throws IllegalStateException if the buffer is too short
   */
  public static void bitmapToFloatBuffer(
      Bitmap bitmap,
      int x,
      int y,
      int width,
      int height,
      float[] normMeanRGB,
      float[] normStdRGB,
      FloatBuffer outBuffer,
      int outBufferOffset,
      MemoryFormat memoryFormat) {
    requireRoom(outBuffer, outBufferOffset, width, height);
    float[][] levels = levels(normMeanRGB, normStdRGB);
    Rows rows = Rows.of(outBuffer, outBufferOffset, width, height, memoryFormat);
    int[] pixels = new int[width];
    for (int row = 0; row < height; ++row) {
      bitmap.getPixels(pixels, 0, width, x, y + row, width, 1);
      for (int i = 0; i < width; ++i) {
        int pixel = pixels[i];
        rows.set(
            i,
            levels[0][(pixel >> 16) & 0xff],
            levels[1][(pixel >> 8) & 0xff],
            levels[2][pixel & 0xff]);
      }
      rows.write(row);
    }
  }

  /**
   * Writes a part of a bitmap into a buffer, whose position stays, in row-major order.
   *
   * @param bitmap the picture
   * @param x left edge of the part
   * @param y upper edge of the part
   * @param width of the part
   * @param height of the part
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @param outBuffer where to
   * @param outBufferOffset the index of the first element there
   * @throws IllegalStateException if the buffer is too short
   */
  public static void bitmapToFloatBuffer(
      Bitmap bitmap,
      int x,
      int y,
      int width,
      int height,
      float[] normMeanRGB,
      float[] normStdRGB,
      FloatBuffer outBuffer,
      int outBufferOffset) {
    bitmapToFloatBuffer(
        bitmap,
        x,
        y,
        width,
        height,
        normMeanRGB,
        normStdRGB,
        outBuffer,
        outBufferOffset,
        MemoryFormat.CONTIGUOUS);
  }

  /**
   * A tensor of the middle of a camera frame, upright, scaled to the nearest pixel.
   *
   * @param image the frame, in the format YUV_420_888
   * @param rotateCWDegrees how far it must be turned clockwise to be upright: 0, 90, 180 or 270
   * @param tensorWidth of the result
   * @param tensorHeight of the result
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @param memoryFormat the order of the elements
   * @return a new tensor
   */
  public static Tensor imageYUV420CenterCropToFloat32Tensor(
      Image image,
      int rotateCWDegrees,
      int tensorWidth,
      int tensorHeight,
      float[] normMeanRGB,
      float[] normStdRGB,
      MemoryFormat memoryFormat) {
    requireSize(tensorWidth, tensorHeight);
    FloatBuffer elements = Tensor.allocateFloatBuffer(3 * tensorWidth * tensorHeight);
    imageYUV420CenterCropToFloatBuffer(
        image, rotateCWDegrees, tensorWidth, tensorHeight, normMeanRGB, normStdRGB, elements, 0, memoryFormat);
    return Tensor.fromBlob(elements, new long[] {1, 3, tensorHeight, tensorWidth}, memoryFormat);
  }

  /**
   * A tensor of the middle of a camera frame, upright, scaled to the nearest pixel, in row-major order.
   *
   * @param image the frame, in the format YUV_420_888
   * @param rotateCWDegrees how far it must be turned clockwise to be upright: 0, 90, 180 or 270
   * @param tensorWidth of the result
   * @param tensorHeight of the result
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @return a new tensor
   */
  public static Tensor imageYUV420CenterCropToFloat32Tensor(
      Image image,
      int rotateCWDegrees,
      int tensorWidth,
      int tensorHeight,
      float[] normMeanRGB,
      float[] normStdRGB) {
    return imageYUV420CenterCropToFloat32Tensor(
        image, rotateCWDegrees, tensorWidth, tensorHeight, normMeanRGB, normStdRGB, MemoryFormat.CONTIGUOUS);
  }

  /**
   * Writes the middle of a camera frame into a buffer, whose position stays: upright, scaled to the nearest pixel.
   *
   * @param image the frame, in the format YUV_420_888
   * @param rotateCWDegrees how far it must be turned clockwise to be upright: 0, 90, 180 or 270
   * @param tensorWidth of the result
   * @param tensorHeight of the result
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @param outBuffer where to
   * @param outBufferOffset the index of the first element there
   * @param memoryFormat the order of the elements
   * @throws IllegalStateException if the buffer is too short
   */
  public static void imageYUV420CenterCropToFloatBuffer(
      Image image,
      int rotateCWDegrees,
      int tensorWidth,
      int tensorHeight,
      float[] normMeanRGB,
      float[] normStdRGB,
      FloatBuffer outBuffer,
      int outBufferOffset,
      MemoryFormat memoryFormat) {
    requireSize(tensorWidth, tensorHeight);
    requireRoom(outBuffer, outBufferOffset, tensorWidth, tensorHeight);
    if (image.getFormat() != ImageFormat.YUV_420_888) {
      throw new IllegalArgumentException("Image format " + image.getFormat() + " != ImageFormat.YUV_420_888");
    }
    float[][] levels = levels(normMeanRGB, normStdRGB);
    Rows rows = Rows.of(outBuffer, outBufferOffset, tensorWidth, tensorHeight, memoryFormat);
    Image.Plane[] planes = image.getPlanes();
    Crop crop = Crop.of(image.getWidth(), image.getHeight(), rotateCWDegrees, tensorWidth, tensorHeight);
    Samples luma = new Samples(planes[0], crop, 0);
    Samples blue = new Samples(planes[1], crop, 1);
    Samples red = new Samples(planes[2], crop, 1);
    for (int y = 0; y < tensorHeight; ++y) {
      for (int x = 0; x < tensorWidth; ++x) {
        // BT.601 of a limited range, in 10 bits of fraction
        int light = 1192 * Math.max(luma.at(x, y) - 16, 0);
        int u = blue.at(x, y) - 128;
        int v = red.at(x, y) - 128;
        rows.set(
            x,
            levels[0][clamped((light + 1634 * v) >> 10)],
            levels[1][clamped((light - 833 * v - 400 * u) >> 10)],
            levels[2][clamped((light + 2066 * u) >> 10)]);
      }
      rows.write(y);
    }
  }

  /**
   * Writes the middle of a camera frame into a buffer, whose position stays: upright, scaled to the nearest pixel, in
   * row-major order.
   *
   * @param image the frame, in the format YUV_420_888
   * @param rotateCWDegrees how far it must be turned clockwise to be upright: 0, 90, 180 or 270
   * @param tensorWidth of the result
   * @param tensorHeight of the result
   * @param normMeanRGB three means
   * @param normStdRGB three standard deviations
   * @param outBuffer where to
   * @param outBufferOffset the index of the first element there
   * @throws IllegalStateException if the buffer is too short
   */
  public static void imageYUV420CenterCropToFloatBuffer(
      Image image,
      int rotateCWDegrees,
      int tensorWidth,
      int tensorHeight,
      float[] normMeanRGB,
      float[] normStdRGB,
      FloatBuffer outBuffer,
      int outBufferOffset) {
    imageYUV420CenterCropToFloatBuffer(
        image,
        rotateCWDegrees,
        tensorWidth,
        tensorHeight,
        normMeanRGB,
        normStdRGB,
        outBuffer,
        outBufferOffset,
        MemoryFormat.CONTIGUOUS);
  }

  private static int clamped(int level) {
    return Math.max(0, Math.min(LEVELS - 1, level));
  }

  /** For each channel what becomes of its levels. */
  private static float[][] levels(float[] mean, float[] deviation) {
    if (mean.length != 3) {
      throw new IllegalArgumentException("normMeanRGB length must be 3");
    }
    if (deviation.length != 3) {
      throw new IllegalArgumentException("normStdRGB length must be 3");
    }
    float[][] levels = new float[3][LEVELS];
    for (int channel = 0; channel < 3; ++channel) {
      for (int level = 0; level < LEVELS; ++level) {
        levels[channel][level] = (level / 255.0f - mean[channel]) / deviation[channel];
      }
    }
    return levels;
  }

  private static void requireRoom(FloatBuffer out, int offset, int width, int height) {
    if (offset + 3L * width * height > out.capacity()) {
      throw new IllegalStateException("Buffer underflow");
    }
  }

  private static void requireSize(int width, int height) {
    if (width <= 0 || height <= 0) {
      throw new IllegalArgumentException("tensorHeight and tensorWidth must be positive");
    }
  }

  /** Writes rows of pixels: a row of each channel, or one of whole pixels. */
  private static final class Rows {
    private final FloatBuffer out;
    private final int offset;
    private final int width;
    private final int plane;
    private final boolean interleaved;
    private final float[] row;

    private Rows(FloatBuffer out, int offset, int width, int height, boolean interleaved) {
      this.out = out;
      this.offset = offset;
      this.width = width;
      this.plane = width * height;
      this.interleaved = interleaved;
      this.row = new float[3 * width];
    }

    static Rows of(FloatBuffer out, int offset, int width, int height, MemoryFormat format) {
      if (format != MemoryFormat.CONTIGUOUS && format != MemoryFormat.CHANNELS_LAST) {
        throw new IllegalArgumentException("Unsupported memory format " + format);
      }
      FloatBuffer whole = out.duplicate();
      whole.clear();
      return new Rows(whole, offset, width, height, format == MemoryFormat.CHANNELS_LAST);
    }

    void set(int x, float red, float green, float blue) {
      if (interleaved) {
        row[3 * x] = red;
        row[3 * x + 1] = green;
        row[3 * x + 2] = blue;
      } else {
        row[x] = red;
        row[width + x] = green;
        row[2 * width + x] = blue;
      }
    }

    void write(int y) {
      if (interleaved) {
        out.position(offset + 3 * y * width);
        out.put(row);
        return;
      }
      for (int channel = 0; channel < 3; ++channel) {
        out.position(offset + channel * plane + y * width);
        out.put(row, channel * width, width);
      }
    }
  }

  /** Where the pixels of a result lie in a frame: a column of the result is one of the frame, or a row, if it is turned. */
  private static final class Crop {
    /** Whether the result's columns are the frame's rows. */
    final boolean turned;

    /** By the result's column, and by its row: the frame's column or row. */
    final int[] columns;

    final int[] rows;

    private Crop(boolean turned, int[] columns, int[] rows) {
      this.turned = turned;
      this.columns = columns;
      this.rows = rows;
    }

    static Crop of(int frameWidth, int frameHeight, int degrees, int width, int height) {
      if (degrees != 0 && degrees != 90 && degrees != 180 && degrees != 270) {
        throw new IllegalArgumentException("rotateCWDegrees must be one of 0, 90, 180, 270");
      }
      boolean turned = degrees == 90 || degrees == 270;
      int uprightWidth = turned ? frameHeight : frameWidth;
      int uprightHeight = turned ? frameWidth : frameHeight;
      int cropWidth = uprightWidth;
      int cropHeight = uprightHeight;
      if ((long) width * uprightHeight <= (long) height * uprightWidth) {
        cropWidth = (int) Math.max(1, (long) width * uprightHeight / height);
      } else {
        cropHeight = (int) Math.max(1, (long) height * uprightWidth / width);
      }
      // Turned by 90 degrees, the frame's lowest row becomes the left column; by 270, its last column the upper row.
      int[] columns = nearest(uprightWidth, cropWidth, width, degrees == 90 || degrees == 180);
      int[] rows = nearest(uprightHeight, cropHeight, height, degrees == 180 || degrees == 270);
      return new Crop(turned, columns, rows);
    }

    private static int[] nearest(int whole, int crop, int count, boolean backwards) {
      int[] found = new int[count];
      int first = (whole - crop) / 2;
      for (int i = 0; i < count; ++i) {
        int step = (int) ((long) i * crop / count);
        found[i] = backwards ? first + crop - 1 - step : first + step;
      }
      return found;
    }
  }

  /** A plane of a frame, at the pixels of a result. */
  private static final class Samples {
    private final byte[] bytes;
    private final int[] columns;
    private final int[] rows;

    /** {@code halvings}: how often the plane's width and height are half of the frame's. */
    Samples(Image.Plane plane, Crop crop, int halvings) {
      ByteBuffer buffer = plane.getBuffer().duplicate();
      buffer.clear();
      bytes = new byte[buffer.remaining()];
      buffer.get(bytes);
      int along = plane.getPixelStride();
      int down = plane.getRowStride();
      columns = scaled(crop.columns, halvings, crop.turned ? down : along);
      rows = scaled(crop.rows, halvings, crop.turned ? along : down);
    }

    private static int[] scaled(int[] places, int halvings, int stride) {
      int[] offsets = new int[places.length];
      for (int i = 0; i < places.length; ++i) {
        offsets[i] = (places[i] >> halvings) * stride;
      }
      return offsets;
    }

    int at(int x, int y) {
      return bytes[columns[x] + rows[y]] & 0xff;
    }
  }
}
