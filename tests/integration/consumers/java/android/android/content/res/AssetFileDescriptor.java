package android.content.res;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;

/** A stand-in of Android's: a whole file. */
public class AssetFileDescriptor {
  private final File file;

  AssetFileDescriptor(File file) throws IOException {
    if (!file.isFile()) {
      throw new FileNotFoundException(file.getPath());
    }
    this.file = file;
  }

  public long getStartOffset() {
    return 0;
  }

  public long getLength() {
    return file.length();
  }

  public FileInputStream createInputStream() throws IOException {
    return new FileInputStream(file);
  }

  public void close() throws IOException {}
}
