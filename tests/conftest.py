"""What every test may count on."""

from __future__ import annotations

import signal

# A shell starts its background jobs with SIGINT ignored, and an ignored signal stays ignored in
# children: tests of Ctrl-C would wait for nothing where CI runs in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
