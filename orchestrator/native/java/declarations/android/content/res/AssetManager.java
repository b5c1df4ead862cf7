package android.content.res;

import java.io.IOException;
import java.io.InputStream;

/** What {@code Assets} calls of Android's class: compiled against, never packed. */
public final class AssetManager {
  private AssetManager() {}

  public native InputStream open(String fileName) throws IOException;

  public native AssetFileDescriptor openFd(String fileName) throws IOException;
}
