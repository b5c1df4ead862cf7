package android.graphics;

/** What {@code TensorImageUtils} calls of Android's class: compiled against, never packed. */
public final class Bitmap {
  private Bitmap() {}

  public native int getWidth();

  public native int getHeight();

  public native void getPixels(int[] pixels, int offset, int stride, int x, int y, int width, int height);
}
