package libtorch.app;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A native object, freed once: when it was closed, or its owner was dropped, and no call uses it any more.
 *
 * <p>A call acquires the handle before and releases it after. So closing while another thread is in a call, or while the
 * collector finds the owner unreachable in the middle of its last call, frees nothing under that call's feet.
 */
final class Handle extends PhantomReference<Object> {
  private static final ReferenceQueue<Object> DROPPED = new ReferenceQueue<Object>();
  // A phantom reference that is itself unreachable is never queued.
  private static final Set<Handle> OPEN =
      Collections.newSetFromMap(new ConcurrentHashMap<Handle, Boolean>());

  private final long address;
  private final boolean isModule;
  private int uses;
  private boolean closed;

  private Handle(Object owner, long address, boolean isModule) {
    super(owner, DROPPED);
    this.address = address;
    this.isModule = isModule;
  }

  static Handle ofModule(Object owner, long address) {
    return opened(new Handle(owner, address, true));
  }

  static Handle ofValue(Object owner, long address) {
    return opened(new Handle(owner, address, false));
  }

  private static Handle opened(Handle handle) {
    OPEN.add(handle);
    sweep();
    return handle;
  }

  /** Closes what was dropped. There is no thread for it: whoever makes the next object does it. */
  private static void sweep() {
    Handle dropped;
    while ((dropped = (Handle) DROPPED.poll()) != null) {
      dropped.close();
    }
  }

  /** How many native objects are open; for tests. */
  static int open() {
    return OPEN.size();
  }

  synchronized long acquire() {
    if (closed) {
      throw new IllegalStateException(isModule ? "the module is closed" : "the value is closed");
    }
    ++uses;
    return address;
  }

  synchronized void release() {
    --uses;
    freeIfUnused();
  }

  synchronized void close() {
    if (!closed) {
      closed = true;
      OPEN.remove(this);
      freeIfUnused();
    }
  }

  private void freeIfUnused() {
    if (!closed || uses > 0) {
      return;
    }
    if (isModule) {
      Native.freeModule(address);
    } else {
      Native.freeValue(address);
    }
  }
}
