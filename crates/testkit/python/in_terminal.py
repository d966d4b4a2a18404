"""Runs a command in a terminal of 110 by 30 characters, presses keys once all of some texts were shown, and prints the rest.

usage: in_terminal.py TEXTS KEYS COMMAND...

TEXTS are separated by commas. Prints every byte that the terminal got; the exit code is the command's.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

texts, keys, command = sys.argv[1].encode().split(b","), sys.argv[2].encode(), sys.argv[3:]
child, terminal = pty.fork()
if child == 0:
    os.execv(command[0], command)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
seen, is_pressed, end = b"", False, time.monotonic() + 120
while time.monotonic() < end:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    if not is_pressed and all(text in seen for text in texts):
        os.write(terminal, keys)
        is_pressed = True
else:
    os.kill(child, signal.SIGKILL)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
