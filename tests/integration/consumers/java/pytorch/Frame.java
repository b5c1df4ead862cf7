import android.graphics.ImageFormat;
import android.media.Image;
import java.nio.ByteBuffer;

/** A camera frame: planes of bytes, as Android's cameras give them; chroma may be interleaved. */
final class Frame extends Image {
  private final int width;
  private final int height;
  private final Plane[] planes;
  int format = ImageFormat.YUV_420_888;

  /** The values are those of pixels: luma by row and column, chroma of their halves. */
  Frame(int[][] luma, int[][] blue, int[][] red, boolean interleaved) {
    height = luma.length;
    width = luma[0].length;
    int step = interleaved ? 2 : 1;
    planes = new Plane[] {plane(luma, 1), plane(blue, step), plane(red, step)};
  }

  private static Plane plane(int[][] values, final int step) {
    final int stride = values[0].length * step + 3; // rows are padded
    // without the padding of the last row, as Android has it
    final ByteBuffer bytes = ByteBuffer.allocateDirect(stride * values.length - 3 - (step - 1));
    for (int y = 0; y < values.length; ++y) {
      for (int x = 0; x < values[y].length; ++x) {
        bytes.put(y * stride + x * step, (byte) values[y][x]);
      }
    }
    return new Plane() {
      @Override
      public int getRowStride() {
        return stride;
      }

      @Override
      public int getPixelStride() {
        return step;
      }

      @Override
      public ByteBuffer getBuffer() {
        return bytes;
      }
    };
  }

  @Override
  public int getFormat() {
    return format;
  }

  @Override
  public int getWidth() {
    return width;
  }

  @Override
  public int getHeight() {
    return height;
  }

  @Override
  public Plane[] getPlanes() {
    return planes;
  }

  @Override
  public void close() {}
}
