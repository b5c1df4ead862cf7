package android.graphics;

/** A stand-in of Android's: pixels in an array. */
public final class Bitmap {
  public enum Config {
    ARGB_8888
  }

  private final int[] colors;
  private final int width;

  private Bitmap(int[] colors, int width) {
    this.colors = colors;
    this.width = width;
  }

  public static Bitmap createBitmap(int[] colors, int width, int height, Config config) {
    if (colors.length < width * height) {
      throw new ArrayIndexOutOfBoundsException();
    }
    return new Bitmap(colors, width);
  }

  public int getWidth() {
    return width;
  }

  public int getHeight() {
    return colors.length / width;
  }

  public void getPixels(int[] pixels, int offset, int stride, int x, int y, int width, int height) {
    for (int row = 0; row < height; ++row) {
      System.arraycopy(colors, (y + row) * this.width + x, pixels, offset + row * stride, width);
    }
  }
}
