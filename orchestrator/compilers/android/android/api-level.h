// The NDK's <android/api-level.h>, as far as PyTorch reads it: the level comes from the target.
// For the stand-in alone.
#pragma once
