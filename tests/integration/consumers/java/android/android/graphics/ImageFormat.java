package android.graphics;

/** A stand-in of Android's. */
public class ImageFormat {
  public static final int YUV_420_888 = 35;
}
