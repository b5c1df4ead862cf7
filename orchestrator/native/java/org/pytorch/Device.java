package org.pytorch;

/** Where a model runs. */
public enum Device {
  /** The processor: the only device that this library has. */
  CPU,
  /** Refused with an {@link UnsupportedOperationException}: there are no kernels for it. */
  VULKAN
}
