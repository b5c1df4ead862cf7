package android.graphics;

/** What {@code TensorImageUtils} reads of Android's class: compiled against, never packed. */
public class ImageFormat {
  public static final int YUV_420_888 = 35;
}
