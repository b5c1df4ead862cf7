/** Tensors of pictures: the class of {@code org.pytorch:pytorch_android_torchvision}. */
package org.pytorch.torchvision;
