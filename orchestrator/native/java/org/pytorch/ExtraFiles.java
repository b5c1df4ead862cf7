package org.pytorch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Enumeration;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** The extra files in a model's file, a zip: {@code <archive>/extra/<name>}. */
final class ExtraFiles {
  private static final int PIECE = 1 << 12;

  private ExtraFiles() {}

  /** Gives each key of the map the content of the extra file of that name, or "". */
  static void read(String modelPath, Map<String, String> extraFiles) throws IOException {
    try (ZipFile file = new ZipFile(modelPath)) {
      Enumeration<? extends ZipEntry> entries = file.entries();
      String first = entries.hasMoreElements() ? entries.nextElement().getName() : "";
      String folder = first.substring(0, first.indexOf('/') + 1) + "extra/";
      for (Map.Entry<String, String> extra : extraFiles.entrySet()) {
        ZipEntry entry = file.getEntry(folder + extra.getKey());
        extra.setValue(entry == null ? "" : text(file, entry));
      }
    }
  }

  private static String text(ZipFile file, ZipEntry entry) throws IOException {
    try (InputStream content = file.getInputStream(entry)) {
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      byte[] piece = new byte[PIECE];
      for (int count; (count = content.read(piece)) >= 0; ) {
        all.write(piece, 0, count);
      }
      return all.toString("UTF-8");
    }
  }
}
