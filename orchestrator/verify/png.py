"""Pictures as the model runner's tensors.

The format: https://www.w3.org/TR/png-3/. A file is untrusted: it is read as PNG alone, and its size
is compared with a limit before a pixel of it is decoded.
"""

from __future__ import annotations

import base64
import sys
import warnings
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from PIL import Image, UnidentifiedImageError

from orchestrator.errors import OrchestratorError, Place
from orchestrator.values.config.app import MOST_ELEMENTS

# Pillow's modes of pictures with 8 bits or fewer in a channel -> what they are read as.
_MODES: Final = {
    "1": "L",
    "L": "L",
    "LA": "L",
    "P": "RGB",
    "PA": "RGB",
    "RGB": "RGB",
    "RGBA": "RGB",
}
# A byte of a pixel as the float32 of byte / 255.
_FLOATS: Final = tuple(byte / 255 for byte in range(256))


class PictureUnreadableError(OrchestratorError):
    """A file that should hold a picture holds none that a model takes."""


def read_png(path: Path) -> dict[str, Any]:
    """The picture in a file, as a value of native/driver/values.h: float32, `[1, channels, height,
    width]`, from 0 to 1, as `torchvision.transforms.functional.to_tensor` has it.

    Grey pictures have one channel, others red, green and blue; transparency is left out. Raises
    PictureUnreadableError, also for 16 bits in a channel.
    """
    try:
        with _without_warnings(), Image.open(path, formats=("PNG",)) as picture:
            mode, (width, height) = picture.mode, picture.size
            # how Pillow is to read the pixels: it drops the lower half of 16 bits
            raw = str(picture.tile[0].args if picture.tile else mode)
            if mode not in _MODES or "16" in raw:
                raise _unreadable(path, f"pixels that Pillow calls {raw}")
            if len(_MODES[mode]) * width * height > MOST_ELEMENTS:
                raise _unreadable(path, f"{width:,} x {height:,} pixels")
            channels = picture.convert(_MODES[mode]).split()
    except PictureUnreadableError:
        raise
    except UnidentifiedImageError:
        raise _unreadable(path, "no PNG file") from None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)[:200]) from None
    except Exception as error:  # Pillow's readers of chunks raise what they trip over
        raise _unreadable(path, str(error)[:200] or type(error).__name__) from None
    elements = array("f")
    for channel in channels:
        elements.extend(map(_FLOATS.__getitem__, channel.tobytes()))
    if sys.byteorder == "big":
        elements.byteswap()
    shape = [1, len(channels), height, width]
    data = base64.b64encode(elements.tobytes()).decode()
    return {"tensor": {"dtype": "float32", "shape": shape, "data": data}}


@contextmanager
def _without_warnings() -> Iterator[None]:
    """As Pillow warns of what is of no account here, but for sizes: it raises at twice those."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _unreadable(path: Path, seen: str) -> PictureUnreadableError:
    return PictureUnreadableError(
        "this picture cannot be passed to a model",
        place=Place(str(path)),
        expected="a PNG file with 8 bits in a channel or fewer, and at most"
        f" {MOST_ELEMENTS:,} elements",
        seen=seen,
        hint="save other arrays with numpy.save, and pass the .npy file",
    )
