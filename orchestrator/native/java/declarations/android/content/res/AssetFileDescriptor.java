package android.content.res;

import java.io.FileInputStream;
import java.io.IOException;

/** What {@code Assets} calls of Android's class: compiled against, never packed. */
public class AssetFileDescriptor {
  public native long getStartOffset();

  public native long getLength();

  public native FileInputStream createInputStream() throws IOException;

  public native void close() throws IOException;
}
